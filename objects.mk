# The objects of programs without nginx. The folder sets ROOT, OUT, CXXFLAGS and SOURCES, its own files and those of src/
# that it needs, includes this file, and links OBJECTS.
#
# The files of a folder of src/ are compiled as one, and the folder's own as PARTS files, if it sets that: this takes half of
# the time. Not so those in ALONE, which have options of their own. SEPARATE=1 compiles each file alone, which shows
# whether it includes what it needs. With PRECOMPILED=1, of tests, g++ reads the headers of the standard library once for
# all, and those in MORE_HEADERS.

# The scripts are embedded by the assembler, which finds them here, and not when it runs at last (link-time optimization).
ALONE += $(ROOT)/src/redis/scripts.cpp
$(OUT)/src/redis/scripts.o: $(wildcard $(ROOT)/lua/*.lua)
$(OUT)/src/redis/scripts.o: CXXFLAGS += -fno-lto -Wa,-I$(ROOT)/lua

OF_SRC := $(filter $(ROOT)/src/%,$(SOURCES))
OWN := $(filter-out $(OF_SRC),$(SOURCES))
ifndef SEPARATE
GROUPS := $(sort $(notdir $(patsubst %/,%,$(dir $(filter-out $(ALONE),$(OF_SRC))))))
$(foreach group,$(GROUPS),$(eval FILES_$(group) := $(filter-out $(ALONE),$(filter $(ROOT)/src/$(group)/%,$(OF_SRC)))))
OWN_GROUPS := $(if $(PARTS),$(addprefix part,$(shell seq $(PARTS))))
$(foreach group,$(OWN_GROUPS),$(eval FILES_$(group) := $(shell printf '%s\n' $(filter-out $(ALONE),$(OWN)) | awk 'NR % $(PARTS) == $(group:part%=%) - 1')))
# written at once, if it is another list than before
$(foreach group,$(GROUPS) $(OWN_GROUPS),$(shell mkdir -p $(OUT)/joined; file=$(OUT)/joined/$(group).cpp; \
    printf '#include "%s"\n' $(abspath $(FILES_$(group))) >$$file.new; cmp -s $$file.new $$file || mv $$file.new $$file))
JOINED := $(foreach group,$(GROUPS) $(OWN_GROUPS),$(FILES_$(group)))
endif

OBJECTS := $(patsubst %,$(OUT)/joined/%.o,$(GROUPS) $(OWN_GROUPS)) \
           $(patsubst $(ROOT)/src/%.cpp,$(OUT)/src/%.o,$(filter-out $(JOINED),$(OF_SRC))) \
           $(patsubst %.cpp,$(OUT)/%.o,$(filter-out $(JOINED),$(OWN)))

STD := algorithm array atomic bitset charconv chrono cmath cstdio cstdlib cstring deque functional limits list map memory \
       new optional ranges set span string string_view thread tuple unordered_map utility variant vector
HEADERS := $(if $(PRECOMPILED),$(OUT)/std.hpp)

$(OUT)/joined/%.o: $(OUT)/joined/%.cpp $(HEADERS:=.gch)
	$(CXX) $(CXXFLAGS) $(HEADERS:%=-include %) -c $< -o $@

$(OUT)/src/%.o: $(ROOT)/src/%.cpp $(HEADERS:=.gch)
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(HEADERS:%=-include %) -c $< -o $@

$(OUT)/%.o: %.cpp $(HEADERS:=.gch)
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) $(HEADERS:%=-include %) -c $< -o $@

$(OUT)/std.hpp.gch: $(lastword $(MAKEFILE_LIST))
	@mkdir -p $(@D)
	printf '#include <%s>\n' $(STD) $(MORE_HEADERS) >$(@:.gch=)
	$(CXX) $(CXXFLAGS) -x c++-header $(@:.gch=) -o $@

# The same sources make the same program in any folder, at any time.
CXXFLAGS += -Wdate-time -ffile-prefix-map=$(abspath $(ROOT))=.

-include $(OBJECTS:.o=.d)
