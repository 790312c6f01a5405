/* The demonstration model, packed, and its expected values. */
#ifndef TESTS_AID_DEMO_H
#define TESTS_AID_DEMO_H

#include <jansson.h>

#include "tests/aid_test.h"

/* A new folder (aid_rmdir) whose packed/ is the store of models/demo. */
char *aid_demo_pack(void);
/* Such a store for a whole test program, as its fixture: nobody changes anything in it. */
extern char *aid_demo_folder, *aid_demo_store; /* the store is packed/ in the folder */
int aid_demo_open(void **state);
int aid_demo_close(void **state);
/* A new folder of links to the store's files, and one of them replaced by a file of this text, or
 * (NULL) left out. */
char *aid_demo_with(const char *packed, const char *name, const char *text);
/* goldens.json of the demo, for json_decref. */
json_t *aid_demo_goldens(void);
/* "1,2,3", to free with mem_free. */
char *aid_id_list(const json_t *ids);
/* The prompt of a greedy golden is its name: chats but for this one. */
bool aid_is_raw(const json_t *greedy);

#endif
