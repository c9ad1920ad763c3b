# spectune. `make help` lists the targets; nothing here needs a configure step.
#
#   CONFIG=release|debug|asan|tsan   one build folder each, build/CONFIG
#   CUDA_HOME=FOLDER                 a CUDA toolkit; empty: that of `make deps`
#   PREFIX=, DESTDIR=                where `make install` puts things
#   V=1                              show the commands

CONFIG ?= release
BUILD ?= build/$(CONFIG)
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
ifeq ($(origin CC),default)
CC := gcc
endif
MAKEFLAGS += --no-builtin-rules

# An empty CUDA_HOME stands for "no toolkit here".
ifeq ($(origin CUDA_HOME),undefined)
CUDA_HOME := $(patsubst %/include/cuda.h,%,$(firstword $(wildcard \
  /usr/local/cuda/include/cuda.h)))
endif
CUDA_DIR := $(or $(patsubst %/include/cuda.h,%,$(firstword $(wildcard \
  $(addsuffix /include/cuda.h,$(CUDA_HOME) deps/cuda)))),deps/cuda)

FLAGS_release := -O2 -g
FLAGS_debug := -O0 -g
FLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_tsan := -O1 -g -fsanitize=thread
FLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
  -fno-sanitize-recover=all
ifeq ($(FLAGS_$(CONFIG)),)
$(error CONFIG=$(CONFIG): expected release, debug, asan or tsan)
endif

PACKAGES := lua5.4 libcjson nettle libpcre2-8 libutf8proc libzstd liblz4
DIRS := runtime gen tuner $(patsubst %/,%,$(sort $(dir $(wildcard \
  runtime/*/*.h runtime/sim/*/*.[hd]* tuner/*/*.h))))
CPPFLAGS := -D_GNU_SOURCE $(addprefix -I,$(DIRS)) -isystem $(CUDA_DIR)/include \
  $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null)
CFLAGS := -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
  -Wmissing-prototypes -Wundef -Wvla -Werror -ffp-contract=off \
  -Wno-psabi -fvisibility=hidden -fPIC -pthread \
  $(FLAGS_$(CONFIG))
LDLIBS := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lm -ldl -pthread
# Of the program alone: the library serves nothing.
TUNER_LIBS := $(shell pkg-config --libs libmicrohttpd 2>/dev/null) $(LDLIBS)

LIB_SRC := $(sort $(filter-out runtime/sim/dropin/%,$(wildcard \
  runtime/*/*.c runtime/sim/*/*.c gen/*.c)))
TUNER_SRC := $(sort $(wildcard tuner/*/*.c))
# Lane loops are compiled three times: plain, for AVX2, and for AVX-512 (chosen
# at run time).
LANES_SRC := $(wildcard runtime/sim/*/lanes_*.c)
ifeq ($(shell uname -m),x86_64)
LANES_OBJ := $(patsubst %.c,$(BUILD)/%.avx2.o,$(LANES_SRC)) \
  $(patsubst %.c,$(BUILD)/%.avx512.o,$(LANES_SRC))
endif
LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(LIB_SRC)) $(LANES_OBJ)
TUNER_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(TUNER_SRC))
LIBS := $(BUILD)/libtuner.a $(BUILD)/libspectune.a

TEST_DIRS := tests/unit tests/kernels tests/engine
UNIT_SRC := $(sort $(wildcard $(addsuffix /test_*.c,$(TEST_DIRS))))
UNIT := $(addprefix $(BUILD)/tests/,$(basename $(notdir $(UNIT_SRC))))
FUZZ := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort \
  $(wildcard tests/fuzz/fuzz_*.c)))
BENCH := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(sort \
  $(wildcard tests/bench/bench_*.c)))
vpath test_%.c $(TEST_DIRS)

ifeq ($(V),)
Q := @
say = @printf '  %-5s %s\n' $(1) $(2);
else
say =
endif

## all: build the program and the library (default)
all: $(BUILD)/spectune $(BUILD)/libspectune.so $(BUILD)/sim/libcuda.so.1 \
  publish

# The release build is also what stands directly in build/.
ifeq ($(BUILD),build/release)
publish: build/spectune build/libspectune.a build/libspectune.so \
  build/sim/libcuda.so.1
else
publish:
endif

build/spectune build/libspectune.a build/libspectune.so \
build/sim/libcuda.so.1: build/%: $(BUILD)/%
	@mkdir -p $(dir $@)
	$(Q)ln -f $< $@ 2>/dev/null || cp -f $< $@

# Rewritten when a flag changes, so that everything is built anew.
FLAGS_TEXT := $(CC) $(CPPFLAGS) $(CFLAGS) $(LDLIBS)
$(BUILD)/flags: force
	@mkdir -p $(BUILD)
	@printf '%s\n' '$(subst ','\'',$(FLAGS_TEXT))' | cmp -s - $@ || \
	  printf '%s\n' '$(subst ','\'',$(FLAGS_TEXT))' > $@

# Where the data are when installed: one file knows, so that another PREFIX
# does not build everything anew.
$(BUILD)/prefix: force | $(BUILD)/flags
	@printf '%s\n' '$(PREFIX)' | cmp -s - $@ || \
	  printf '%s\n' '$(PREFIX)' > $@
$(BUILD)/gen/emit.o: $(BUILD)/prefix
$(BUILD)/gen/emit.o: CPPFLAGS += -DSPT_DATA_DIR='"$(PREFIX)/share/spectune"'

$(BUILD)/libspectune.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/libtuner.a: $(TUNER_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# The same without templates, Lua and NVRTC: gen/none stands for gen.
SLIM_OBJ := $(filter-out $(BUILD)/gen/% \
  $(BUILD)/runtime/kernels/kernel_set_jit.o,$(LIB_OBJ)) \
  $(BUILD)/gen/config.o $(BUILD)/gen/board_built_in.o \
  $(BUILD)/gen/none/pack_only.o
# Boards as a table in the library.
$(BUILD)/gen/none/print_boards: gen/none/print_boards.c \
  $(filter-out %/board_built_in.o,$(filter $(BUILD)/gen/% \
  $(BUILD)/runtime/base/%,$(LIB_OBJ)))
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/gen/none/board_bytes.inc: $(BUILD)/gen/none/print_boards \
  $(wildcard archs/*.lua)
	$(Q)$< . > $@
$(BUILD)/gen/board_built_in.o: $(BUILD)/gen/none/board_bytes.inc
$(BUILD)/gen/board_built_in.o: CPPFLAGS += -I$(BUILD)/gen/none
$(BUILD)/libspectune-slim.so: $(SLIM_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libspectune.so.0 -Wl,-z,defs \
	  -o $@ $^ $(filter-out -llua%,$(LDLIBS))

$(BUILD)/libspectune.so: $(LIB_OBJ)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libspectune.so.0 -o $@ $^ $(LDLIBS)

# Sim as a libcuda.so.1, for programs that know nothing of it.
$(BUILD)/sim/libcuda.so.1: $(BUILD)/runtime/sim/dropin/libcuda.o $(LIB_OBJ)
	$(call say,LD,$@)
	@mkdir -p $(dir $@)
	$(Q)$(CC) $(CFLAGS) -shared -Wl,-soname,libcuda.so.1 -o $@ $^ $(LDLIBS)

$(BUILD)/spectune: $(BUILD)/tuner/main.o $(LIBS)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -o $@ $^ $(TUNER_LIBS)

COMPILE = $(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP

$(BUILD)/%.avx2.o: %.c $(BUILD)/flags
	$(call say,CC,$@)
	@mkdir -p $(dir $@)
	$(Q)$(COMPILE) -mavx2 -mfma -mf16c -DSIM_AVX2 -c -o $@ $<

$(BUILD)/%.avx512.o: %.c $(BUILD)/flags
	$(call say,CC,$@)
	@mkdir -p $(dir $@)
	$(Q)$(COMPILE) -mavx2 -mfma -mf16c -mavx512f -mavx512vl -mavx512bw \
	  -mavx512dq -DSIM_AVX2 -DSIM_AVX512 -c -o $@ $<

$(BUILD)/%.o: %.c $(BUILD)/flags
	$(call say,CC,$<)
	@mkdir -p $(dir $@)
	$(Q)$(COMPILE) -c -o $@ $<

$(BUILD)/tests/%: %.c $(LIBS) $(BUILD)/flags
	$(call say,TEST,$<)
	@mkdir -p $(dir $@)
	$(Q)$(COMPILE) -MT $@ -MF $@.d -Itests -o $@ $< $(LIBS) $(TUNER_LIBS)

# What they open while they run.
$(BUILD)/tests/test_dropin: | $(BUILD)/sim/libcuda.so.1
$(BUILD)/tests/test_engine_pack: | $(BUILD)/libspectune-slim.so

# Without libFuzzer an entry point gets a main that replays a corpus.
ifeq ($(CONFIG),fuzz)
FUZZ_MAIN := -fsanitize=fuzzer
else
FUZZ_MAIN := tests/fuzz/replay.c
endif
$(BUILD)/fuzz/%: tests/fuzz/%.c tests/fuzz/replay.c $(LIBS) $(BUILD)/flags
	$(call say,FUZZ,$<)
	@mkdir -p $(dir $@)
	$(Q)$(COMPILE) -MT $@ -MF $@.d -Itests -o $@ $< $(FUZZ_MAIN) $(LIBS) $(TUNER_LIBS)

$(BUILD)/bench/%: tests/bench/%.c $(LIBS) $(BUILD)/flags
	$(call say,BENCH,$<)
	@mkdir -p $(dir $@)
	$(Q)$(COMPILE) -MT $@ -MF $@.d -Itests -o $@ $< $(LIBS) $(TUNER_LIBS)

## deps: install what building needs; fetch NVRTC where no toolkit is found
deps:
	@.ci/deps.sh build "$(CUDA_HOME)"

## models: fetch a second model for the tests (Gemma's terms of use apply)
models:
	@.ci/deps.sh gemma

## run: all set-up, then the main command: spectune --arch sm90 --heads 64/8
run: deps
	@$(MAKE) -j$(JOBS) --no-print-directory all
	$(BUILD)/spectune --arch sm90 --heads 64/8

## test: all set-up, then every test; ends with "N passed, N failed"
test: deps
	@.ci/deps.sh models
	@$(MAKE) -j$(JOBS) --no-print-directory all unit
	@BUILT=1 BUILD=$(BUILD) tests/run

## long: the whole of those tests that `make test` runs a part of
long: deps
	@.ci/deps.sh models
	@$(MAKE) -j$(JOBS) --no-print-directory all unit
	@BUILT=1 TEST_LONG=1 BUILD=$(BUILD) tests/run engine_bits hidden_states soak kill

## unit: build the test programs
unit: $(UNIT) $(FUZZ) $(BUILD)/spectune $(BUILD)/libspectune-slim.so

## slim: libspectune-slim.so, kernels from packs alone, without Lua and NVRTC
slim: $(BUILD)/libspectune-slim.so

## sweep: the main command for every arch, head grouping and head dim
sweep: deps
	@$(MAKE) -j$(JOBS) --no-print-directory all
	@BUILD=$(BUILD) tests/sweep.sh

## bench: speed of the commands and of sim, as ratios within one run
bench: deps
	@$(MAKE) -j$(JOBS) --no-print-directory all bench-programs
	@BUILD=$(BUILD) tests/bench/bench.sh
bench-programs: $(BENCH)

## lint: format, bans, sizes, shell and Lua syntax
lint:
	@tests/lint.sh

## format: clang-format over all C files
format:
	clang-format -i $$(git ls-files '*.c' '*.h')

## fuzz: every entry point for FUZZ_SECONDS with libFuzzer (needs clang)
fuzz: deps
	@$(MAKE) -j$(JOBS) --no-print-directory CONFIG=fuzz CC=clang fuzz-programs
	@for entry in $(notdir $(FUZZ)); do \
	  corpus=tests/fuzz/corpus/$${entry#fuzz_}; \
	  mkdir -p build/fuzz/corpus/$$entry; \
	  build/fuzz/fuzz/$$entry -max_total_time=$(FUZZ_SECONDS) -timeout=10 \
	    -rss_limit_mb=2048 -artifact_prefix=build/fuzz/$$entry- \
	    build/fuzz/corpus/$$entry $$corpus || exit 1; \
	done
fuzz-programs: $(FUZZ)

## install: program, library, header and data into PREFIX
SHARE := $(DESTDIR)$(PREFIX)/share/spectune
install: all
	$(Q)install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include \
	  $(DESTDIR)$(PREFIX)/lib/pkgconfig $(SHARE)
	$(Q)install -m 755 $(BUILD)/spectune $(DESTDIR)$(PREFIX)/bin/
	$(Q)install -m 644 $(BUILD)/libspectune.a $(DESTDIR)$(PREFIX)/lib/
	$(Q)install -m 755 $(BUILD)/libspectune.so \
	  $(DESTDIR)$(PREFIX)/lib/libspectune.so.0
	$(Q)ln -sf libspectune.so.0 $(DESTDIR)$(PREFIX)/lib/libspectune.so
	$(Q)install -m 644 runtime/spectune.h $(DESTDIR)$(PREFIX)/include/
	$(Q)version=$$(sed -n 's/^#define SPT_VERSION "\(.*\)"/\1/p' \
	  runtime/spectune.h); \
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: spectune' \
	  'Description: speculative decoding kernels and packs' \
	  "Version: $$version" 'Requires.private: $(PACKAGES)' \
	  'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -lspectune' \
	  'Libs.private: -lm -ldl -pthread' \
	  > $(DESTDIR)$(PREFIX)/lib/pkgconfig/spectune.pc
	$(Q)install -d $(DESTDIR)$(PREFIX)/lib/spectune/sim
	$(Q)install -m 755 $(BUILD)/sim/libcuda.so.1 \
	  $(DESTDIR)$(PREFIX)/lib/spectune/sim/
	$(Q)cp -R archs templates profiles $(SHARE)/
	$(Q)[ -n "$(DESTDIR)" ] || ldconfig 2>/dev/null || true

## clean: remove all build folders
clean:
	rm -rf build

## help: this list
help:
	@sed -n 's/^## \([a-z]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS="$$(printf '\t')" read -r name text; do \
	    printf '  make %-8s %s\n' "$$name" "$$text"; done

force:
.PHONY: all publish deps models run test long unit sweep bench bench-programs lint \
  format fuzz fuzz-programs install clean help force
.DELETE_ON_ERROR:
# Objects that only a pattern rule names are kept.
.SECONDARY:

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
