# spectune. `make help` lists the targets.
CONFIG ?= release
CC ?= gcc
BUILD := build/$(CONFIG)
CUDA_HOME ?= $(firstword $(wildcard deps/cuda) /usr/local/cuda)
CUDA_INC := $(CUDA_HOME)/include

FLAGS_release := -O2 -g
FLAGS_debug := -O0 -g
FLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
FLAGS_tsan := -O1 -g -fsanitize=thread
DIRS := runtime $(patsubst %/,%,$(sort $(dir $(wildcard runtime/*/*.h)))) gen tuner
CPPFLAGS := -D_GNU_SOURCE $(addprefix -I,$(DIRS)) -isystem $(CUDA_INC) \
  $(shell pkg-config --cflags lua5.4 libcjson nettle)
CFLAGS := -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes \
  -Wmissing-prototypes -Wundef -Wvla -Werror -ffp-contract=off \
  -fvisibility=hidden -fPIC -pthread $(FLAGS_$(CONFIG))
LDLIBS := $(shell pkg-config --libs lua5.4 libcjson nettle) -lm -ldl -pthread

RUNTIME_SRC := $(sort $(wildcard runtime/*/*.c))
GEN_SRC := $(sort $(wildcard gen/*.c))
TUNER_SRC := $(sort $(wildcard tuner/*.c))
# Lane loops are compiled twice: plain, and for AVX2 (chosen at run time).
LANES_SRC := $(filter runtime/sim/lanes_%.c,$(RUNTIME_SRC))
LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(RUNTIME_SRC) $(GEN_SRC) $(filter-out tuner/main.c,$(TUNER_SRC))) \
  $(patsubst %.c,$(BUILD)/%.avx2.o,$(LANES_SRC))
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))

all: $(BUILD)/spectune

$(BUILD)/libspectune.a: $(LIB_OBJ)
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/spectune: $(BUILD)/tuner/main.o $(BUILD)/libspectune.a
	$(CC) $(CFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/tests/%: tests/unit/%.c $(BUILD)/libspectune.a
	@mkdir -p $(dir $@)
	$(CC) $(CPPFLAGS) -Itests $(CFLAGS) -MMD -MP -o $@ $< $(BUILD)/libspectune.a $(LDLIBS)

$(BUILD)/%.avx2.o: %.c
	@mkdir -p $(dir $@)
	$(CC) $(CPPFLAGS) $(CFLAGS) -mavx2 -mfma -mf16c -DSIM_AVX2 -MMD -MP -c -o $@ $<

$(BUILD)/%.o: %.c
	@mkdir -p $(dir $@)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

unit: $(UNIT)

.PHONY: all unit clean
clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
