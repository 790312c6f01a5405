# cherenkov: every target of the project. `make help` lists them.
#
# CONFIG=debug|release|asan|ubsan|tsan|fuzz|cov builds side by side in build/CONFIG. asan is
# address, undefined behaviour and leaks together; ubsan alone is for machines where asan is too
# heavy.
#
# Sources are found by folder, so a new file needs no line here:
#   src/FOLDER/STEM.c      goes into the library, or, from src/cli, into the program
#   src/gpu/STEM.comp      a kernel of the gpu engine, compiled and put into the library as an array
#   src/server/page/FILE   a file of the web page, put into the program as an array
#   tests/test_STEM.c      one test program each, with every tests/aid_*.c
#   tests/tool_STEM.c      one helper program each, linked like a test
#   bench/bench_STEM.c     one measuring program each
#   bench/peer/peer_STEM.c one program each of the comparison with another engine (bench/peer.sh)
#   fuzz/fuzz_STEM.c       a fuzz target each (CONFIG=fuzz), and a replay of its seeds (any CONFIG)
#
# Objects are made again when the compiler or its flags change: $B/flags holds those of the last
# run.

CONFIG ?= release
CC     ?= cc
PREFIX ?= /usr/local
B      := build/$(CONFIG)

VERSION  := $(shell sed -n 's/^\#define CHERENKOV_VERSION "\(.*\)"/\1/p' include/cherenkov.h)
REVISION := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

# io_uring is Linux's alone; without it experts are read by threads.
URING   := $(shell pkg-config --exists liburing 2>/dev/null && echo liburing)
# The dashboard's terminal; without it the program says so.
CURSES  := $(shell pkg-config --exists ncurses 2>/dev/null && echo ncurses)
LIBS_LIB := jansson libpcre2-8 libutf8proc libxxhash $(URING)
LIBS_PC := $(LIBS_LIB) libedit libmicrohttpd libconfig
LIBS    := $(shell pkg-config --libs $(LIBS_PC) $(CURSES) 2>/dev/null) -lpthread -lm -ldl
# The gpu engine needs Vulkan's headers and a compiler of kernels; the loader is looked for at run
# time.
GLSLC   ?= glslc
# Not -O: the optimiser of Debian 12 unrolls loops without their NoContraction, and then joins a
# product and a sum that the source rounds one by one. Drivers optimise what they are given.
GLSLFLAGS := --target-env=vulkan1.3 -O0 -Werror -DGPU_GLSL -Isrc
VULKAN  := $(shell pkg-config --exists vulkan 2>/dev/null && command -v $(GLSLC) 2>/dev/null)
CMOCKA  := $(shell pkg-config --libs cmocka 2>/dev/null || echo -lcmocka)

# Strict floats everywhere: the reference engine and the quantisers promise bits, so no contraction
# and no fast-math; kernels that want fused operations say so with intrinsics.
CFLAGS_BASE := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -I. -Wall -Wextra -Wshadow \
               -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -ffp-contract=off \
               -fno-math-errno -fvisibility=hidden -fPIC -pthread \
               $(shell pkg-config --cflags $(LIBS_PC) 2>/dev/null)
ifeq ($(WERROR),1)
CFLAGS_BASE += -Werror
endif

# Stack traces need lines alone; where variables are takes gcc half a minute for a file of kernels.
SANITIZE       := -fno-omit-frame-pointer -fno-sanitize-recover=all
CFLAGS_release := -O3 -g
# valgrind of Debian 12 does not read what clang writes as DWARF 5.
CFLAGS_debug   := -O0 -g3 -gdwarf-4
CFLAGS_asan    := -O1 -g1 -fsanitize=address,undefined $(SANITIZE)
CFLAGS_ubsan   := -O1 -g1 -fsanitize=undefined $(SANITIZE)
CFLAGS_tsan    := -O1 -g1 -fsanitize=thread $(SANITIZE)
CFLAGS_cov     := -O0 -g --coverage
CFLAGS_fuzz    := -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined $(SANITIZE)
ifndef CFLAGS_$(CONFIG)
$(error CONFIG=$(CONFIG) is not one of debug release asan ubsan tsan fuzz cov)
endif
ifeq ($(CONFIG),fuzz)
override CC := $(if $(findstring clang,$(CC)),$(CC),$(filter ccache,$(CC)) clang)
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
SRC_TOOL := $(sort $(wildcard tests/tool_*.c))
SRC_BENCH := $(sort $(wildcard bench/bench_*.c))
OBJ_LIB  := $(SRC_LIB:%.c=$B/%.o)
OBJ_CLI  := $(SRC_CLI:%.c=$B/%.o)
OBJ_AID  := $(SRC_AID:%.c=$B/%.o)
SPIRV    := $(if $(VULKAN),$(patsubst %.comp,$B/%.spv,$(sort $(wildcard src/gpu/*.comp))) \
            $(sort $(wildcard src/gpu/coop/*.spv)))
OBJ_LIB  += $(if $(VULKAN),$B/src/gpu/kernels.o)
PAGE     := $(sort $(foreach end,html css js svg,$(wildcard src/server/page/*.$(end))))
OBJ_LIB  += $B/src/server/page_files.o
TESTS    := $(SRC_TEST:tests/%.c=$B/%)
FUZZERS  := $(SRC_FUZZ:fuzz/%.c=$B/%)
REPLAYS  := $(SRC_FUZZ:fuzz/fuzz_%.c=$B/replay_%)
TOOLS    := $(SRC_TOOL:tests/%.c=$B/%)
BENCHES  := $(SRC_BENCH:bench/%.c=$B/%)
LIB      := $B/internal.a
# T=stem builds no more tests than it runs.
ifneq ($(T),)
TESTS   := $(filter $B/test_$(T),$(TESTS))
REPLAYS := $(if $(filter seeds,$(T)),$(REPLAYS))
endif

.PHONY: all help FORCE no-gpu
all: $B/cherenkov $B/libcherenkov.a $(if $(VULKAN),,no-gpu) ## build the program and the library

no-gpu:
	@echo "built without the gpu engine: no Vulkan headers or no glslc (make deps-gpu)"

help: ## list the targets
	@echo "usage: make [CONFIG=debug|release|asan|ubsan|tsan|fuzz|cov] [WERROR=1] [V=1] TARGET"
	@awk -F':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  %-12s %s\n",$$1,$$2}' Makefile

# --- building ---

# A file that changes only when what it holds does.
keep = @mkdir -p $(@D); printf '%s\n' "$$$(1)" | cmp -s - $@ || printf '%s\n' "$$$(1)" >$@
export BUILD_FLAGS := $(CC) $(CFLAGS_ALL) $(LDFLAGS) $(LIBS)
export BUILD_REVISION := $(REVISION)
$B/flags: FORCE
	@pkg-config --exists $(LIBS_PC) || { echo "libraries are missing: run \`make deps\`"; exit 1; }
	$(call keep,BUILD_FLAGS)
$B/revision: FORCE
	$(call keep,BUILD_REVISION)

$B/%.o: %.c $B/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CFLAGS_ALL) $(CFLAGS_FILE) -MMD -MP -c $< -o $@

$B/src/cli/cmd_version.o: $B/revision
$B/src/cli/cmd_version.o: CFLAGS_FILE = -DCHERENKOV_REVISION='"$(REVISION)"'

ifeq ($(CONFIG),fuzz)
# They parse nothing, and clang takes many minutes over their unrolled loops with checks.
$B/src/kern/%.o: CFLAGS_FILE = -fno-sanitize=all
endif
ifeq ($(CONFIG),asan)
# Loops over what callers measured take most of the tests' time: of these, addresses are checked.
HOT := src/reference/arith src/quant/half $(basename $(wildcard src/quant/q[0-9].c src/kern/*.c))
$(HOT:%=$B/%.o): CFLAGS_FILE = -O3 -fno-sanitize=undefined
endif
$B/src/stream/reader_uring.o: CFLAGS_FILE = $(if $(URING),-DHAVE_LIBURING)

$B/src/cli/screen.o $B/src/cli/screen.analyzed: CFLAGS_FILE = \
    $(if $(CURSES),-DHAVE_NCURSES $(shell pkg-config --cflags $(CURSES) 2>/dev/null))

$B/src/gpu/%.o $B/src/gpu/%.analyzed: CFLAGS_FILE = $(if $(VULKAN),-DHAVE_VULKAN)

# Kernels: GLSL to SPIR-V to one file of arrays, which is made again when one comes or goes.
export BUILD_KERNELS := $(GLSLC) $(GLSLFLAGS) $(SPIRV)
$B/kernels: FORCE
	$(call keep,BUILD_KERNELS)

$B/%.spv: %.comp $B/kernels
	@mkdir -p $(@D)
	$(call say,GLSL)$(GLSLC) $(GLSLFLAGS) -MD -MF $@.d -o $@ $<

# One that is gone: what included it is made again.
src/gpu/%.glsl: ;

$B/src/gpu/kernels.c: $(SPIRV) $B/kernels tools/embed.sh
	$(call say,EMBED)tools/embed.sh kernels $(SPIRV) >$@.part && mv $@.part $@

# The web page, the same way.
export BUILD_PAGE := $(PAGE)
$B/page: FORCE
	$(call keep,BUILD_PAGE)

$B/src/server/page_files.c: $(PAGE) $B/page tools/embed.sh
	@mkdir -p $(@D)
	$(call say,EMBED)tools/embed.sh page $(PAGE) >$@.part && mv $@.part $@

$B/src/gpu/kernels.o $B/src/server/page_files.o: %.o: %.c $B/flags
	$(call say,CC)$(CC) $(CFLAGS_ALL) $(CFLAGS_FILE) -MMD -MP -c $< -o $@

# All but main.o, for the program, the tests and the fuzz targets.
$(LIB): $(OBJ_LIB) $(filter-out %/main.o,$(OBJ_CLI))
	@rm -f $@
	$(call say,AR)ar rcs $@ $^

# What is installed: one object whose only global names are those of include/cherenkov.h, so that it
# cannot clash with the names of the program that links it.
$B/libcherenkov.a: $(filter-out $B/src/server/%,$(OBJ_LIB))
	@rm -f $@
	$(call say,AR)ld -r -o $B/cherenkov.o $^ && objcopy --localize-hidden $B/cherenkov.o && \
	    ar rcs $@ $B/cherenkov.o

link = $(call say,LD)$(CC) $(CFLAGS_ALL) $(filter %.o %.a,$^) $(LDFLAGS) $(LIBS)

$B/cherenkov: $B/src/cli/main.o $(LIB)
	$(link) -o $@

$B/test_%: $B/tests/test_%.o $(OBJ_AID) $(LIB)
	$(link) $(CMOCKA) -o $@

$B/tool_%: $B/tests/tool_%.o $(OBJ_AID) $(LIB)
	$(link) $(CMOCKA) -o $@

$B/bench_%: $B/bench/bench_%.o $(LIB)
	$(link) -o $@

$B/peer_%: $B/bench/peer/peer_%.o $(LIB)
	$(link) -o $@

$B/fuzz_%: $B/fuzz/fuzz_%.o $(LIB)
	$(link) -fsanitize=fuzzer -o $@

$B/replay_%: $B/fuzz/fuzz_%.o $B/fuzz/replay.o $(LIB)
	$(link) -o $@

.PHONY: tests fuzzers
tests: $(TESTS) $(TOOLS) $(REPLAYS) all ## build the tests without running them
fuzzers: $(FUZZERS)

# --- using ---

# All processors, unless the caller has said how many (-j).
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)
jobs = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(CORES))
again = +@$(MAKE) --no-print-directory $(jobs)

.PHONY: deps deps-gpu deps-ci test test-now demo demo-now bench fuzz cov valgrind
deps: ## install the libraries that are missing, through the system's package manager
	@tools/deps.sh

deps-gpu: ## the same, and what the gpu engine is built with
	@tools/deps.sh gpu

deps-ci: ## the same, with the tools of `make tidy`, `make fuzz` and `make valgrind`
	@tools/deps.sh ci

# The flags of libraries that deps has just installed are known only to a make that starts after it.
test: deps ## run every test (T=stem runs one)
	$(again) test-now

test-now: tests
	@B=$B T=$(T) tools/run-tests.sh

demo: deps ## build, pack the demonstration model, and print a story
	$(again) demo-now

demo-now: all
	@B=$B tools/demo.sh

bench: $(BENCHES) all ## measure (T=stem runs one)
	@B=$B T=$(T) tools/bench.sh

FUZZ_SECONDS = $(or $(SECONDS),60)
fuzz: ## run every fuzz target for SECONDS=60 (T=stem runs one); crashes become seeds
	$(again) CONFIG=fuzz fuzzers
	@B=build/fuzz T=$(T) tools/fuzz.sh $(FUZZ_SECONDS)

cov: ## run every test and print how much of each folder they reach
	$(again) CONFIG=cov tests
	@find build/cov -name '*.gcda' -delete
	@B=build/cov T=$(T) tools/run-tests.sh
	@B=build/cov tools/coverage.sh

valgrind: tests ## run the tests under valgrind (T=stem runs one)
	@B=$B T="$(T)" WRAP=1 tools/run-tests.sh

# --- against implementations from npm ---

.PHONY: test-npm
test-npm: tests ## compare with libraries that npm installs; needs the network (T=stem runs one)
	@B=$B T=$(T) tests/npm/run.sh

# --- checking ---

.PHONY: tidy analyze format one-line count docs
tidy: all ## check form, layers, lengths, words and documents (T=name runs one check)
	@CC="$(CC)" B=$B T=$(T) tools/tidy.sh

# A mark for each file that the analyser had nothing to say about; made again with its object. It
# gives up a function after NODES states (clang's own limit is 225000).
NODES ?= 225000
$B/%.analyzed: $B/%.o .clang-tidy
	$(call say,LINT)clang-tidy --quiet $*.c -- $(CFLAGS_BASE) $(CFLAGS_FILE) \
	    -Xclang -analyzer-config -Xclang max-nodes=$(NODES) 2>$@.log || \
	    { cat $@.log; exit 1; }
	@touch $@

analyze: $(SRC_LIB:%.c=$B/%.analyzed) $(SRC_CLI:%.c=$B/%.analyzed) ## run clang's static analyser

format: ## rewrite all C files with clang-format
	@tools/format.sh -i

one-line: $B/src/server/page_files.c ## compile the whole program with one compiler call
	$(CC) -std=c11 -D_GNU_SOURCE -Isrc -Iinclude src/*/*.c $< $(LIBS) -o build/one-line
	@build/one-line version

docs: $B/cherenkov ## make docs/env.md and the manual page's flags again
	@$B/cherenkov env --markdown >docs/env.md
	@B=$B tools/man.sh >$B/cherenkov.1 && cp $B/cherenkov.1 docs/cherenkov.1

count: ## lines of code by folder
	@tools/count.sh

# --- installing ---

.PHONY: install uninstall clean
D = $(DESTDIR)$(PREFIX)
install: all ## install below PREFIX (DESTDIR is put in front)
	install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include $(D)/share/man/man1
	install -m 755 $B/cherenkov $(D)/bin/cherenkov
	install -m 644 $B/libcherenkov.a $(D)/lib/libcherenkov.a
	install -m 644 include/cherenkov.h $(D)/include/cherenkov.h
	install -m 644 docs/cherenkov.1 $(D)/share/man/man1/cherenkov.1
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' -e 's|@REQUIRES@|$(LIBS_LIB)|' \
	    tools/cherenkov.pc.in >$(D)/lib/pkgconfig/cherenkov.pc

uninstall: ## remove what install put there
	rm -f $(D)/bin/cherenkov $(D)/lib/libcherenkov.a $(D)/include/cherenkov.h \
	    $(D)/share/man/man1/cherenkov.1 $(D)/lib/pkgconfig/cherenkov.pc

clean: ## remove everything that was built
	rm -rf build

.SECONDARY:
-include $(wildcard $(addprefix $B/,src/*/*.d tests/*.d fuzz/*.d bench/*.d bench/*/*.d))
