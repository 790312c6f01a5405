# cherenkov: every target of the project. `make help` lists them.
#
# CONFIG=debug|release|asan|ubsan|tsan|fuzz|cov builds side by side in build/CONFIG.
# Sources are found by folder: src/FOLDER/STEM.c goes into the library, except src/cli, which is
# the program; tests/test_STEM.c is one test program each; fuzz/fuzz_STEM.c one fuzz target each.

CONFIG ?= release
CC     ?= cc
PREFIX ?= /usr/local
B      := build/$(CONFIG)

VERSION  := 0.1.0
REVISION := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

LIBS_PC := jansson libpcre2-8 libutf8proc libxxhash libedit
LIBS    := $(shell pkg-config --libs $(LIBS_PC) 2>/dev/null) -lpthread -lm
CMOCKA  := $(shell pkg-config --libs cmocka 2>/dev/null || echo -lcmocka)

# Strict floats everywhere: the reference engine and the quantisers promise bits, so no contraction
# and no fast-math; kernels that want fused operations say so with intrinsics.
CFLAGS_BASE := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -I. -Wall -Wextra -Wshadow -Wstrict-prototypes \
               -Wmissing-prototypes -Wvla -Wpointer-arith -ffp-contract=off -fno-math-errno \
               -fvisibility=hidden -fPIC -pthread $(shell pkg-config --cflags $(LIBS_PC) 2>/dev/null) \
               -DCHERENKOV_VERSION='"$(VERSION)"' -DCHERENKOV_REVISION='"$(REVISION)"'
ifeq ($(WERROR),1)
CFLAGS_BASE += -Werror
endif

CFLAGS_release := -O3 -g
CFLAGS_debug   := -O0 -g3
CFLAGS_asan    := -O1 -g -fsanitize=address -fno-omit-frame-pointer
CFLAGS_ubsan   := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_cov     := -O0 -g --coverage
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
ifeq ($(CONFIG),fuzz)
CC := clang
endif
ifndef CFLAGS_$(CONFIG)
$(error CONFIG=$(CONFIG) is not one of debug release asan ubsan tsan fuzz cov)
endif
# `make V=1` prints whole commands.
ifeq ($(V),1)
say = 
else
say = @printf '%-5s %s\n' $(1) $@;
endif

CFLAGS_ALL = $(CFLAGS_BASE) $(CFLAGS_$(CONFIG)) $(CFLAGS)

SRC_LIB  := $(sort $(filter-out src/cli/%,$(wildcard src/*/*.c)))
SRC_CLI  := $(sort $(wildcard src/cli/*.c))
SRC_TEST := $(sort $(wildcard tests/test_*.c))
SRC_AID  := $(sort $(wildcard tests/aid_*.c))
SRC_FUZZ := $(sort $(wildcard fuzz/fuzz_*.c))
SRC_TOOL := $(sort $(wildcard tests/tool_*.c bench/bench_*.c))
OBJ_LIB  := $(SRC_LIB:%.c=$B/%.o)
OBJ_CLI  := $(SRC_CLI:%.c=$B/%.o)
OBJ_AID  := $(SRC_AID:%.c=$B/%.o)
TESTS    := $(SRC_TEST:tests/%.c=$B/%)
FUZZERS  := $(SRC_FUZZ:fuzz/%.c=$B/%)
TOOLS    := $(patsubst %.c,$B/%,$(notdir $(SRC_TOOL)))

.PHONY: all help
all: $B/cherenkov $B/libcherenkov.a ## build the program and the library

help: ## list the targets
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-12s %s\n",$$1,$$2}' $(MAKEFILE_LIST)

$B/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

# A change of revision rebuilds only the file that prints it.
$B/src/cli/cmd_version.o: .git/HEAD
.git/HEAD: ;

$B/libcherenkov.a: $(OBJ_LIB)
	@rm -f $@
	$(call say,AR)ar rcs $@ $^

$B/cherenkov: $(OBJ_CLI) $B/libcherenkov.a
	$(call say,LD)$(CC) $(CFLAGS_ALL) $^ $(LDFLAGS) $(LIBS) -o $@

$B/test_%: $B/tests/test_%.o $(OBJ_AID) $B/libcherenkov.a
	$(call say,LD)$(CC) $(CFLAGS_ALL) $^ $(LDFLAGS) $(LIBS) $(CMOCKA) -o $@

$B/tool_%: $B/tests/tool_%.o $B/libcherenkov.a
	$(call say,LD)$(CC) $(CFLAGS_ALL) $^ $(LDFLAGS) $(LIBS) -o $@

$B/bench_%: $B/bench/bench_%.o $B/libcherenkov.a
	$(call say,LD)$(CC) $(CFLAGS_ALL) $^ $(LDFLAGS) $(LIBS) -o $@

$B/fuzz_%: $B/fuzz/fuzz_%.o $B/libcherenkov.a
	$(call say,LD)$(CC) $(CFLAGS_ALL) -fsanitize=fuzzer $^ $(LDFLAGS) $(LIBS) -o $@

.PHONY: tests tools fuzzers test deps clean
tests: $(TESTS) $(TOOLS) $B/cherenkov ## build the tests without running them
tools: $(TOOLS)
fuzzers: $(FUZZERS)

test: tests ## run every test (T=stem runs one)
	@B=$B T=$(T) tools/run-tests.sh

deps: ## install what is missing, through the system's package manager
	@tools/deps.sh

clean: ## remove everything that was built
	rm -rf build

.SECONDARY:
-include $(wildcard $B/src/*/*.d $B/tests/*.d $B/fuzz/*.d $B/bench/*.d)
