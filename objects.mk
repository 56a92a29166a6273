# The objects of programs without nginx. The folder sets ROOT, OUT, CXXFLAGS and SOURCES, its own files and those of src/
# that it needs, includes this file, and links OBJECTS.
#
# The sources are compiled as PARTS files (src/join_sources), not so those in ALONE, which have options of their own.
# SEPARATE=1 compiles each alone, which shows whether it includes what it needs. With PRECOMPILED=1, of tests, g++ reads the
# headers of the standard library once for all.

# The scripts are embedded by the assembler, which finds them here, and not when it runs at last (link-time optimization).
ALONE += $(ROOT)/src/redis/scripts.cpp
$(OUT)/src/redis/scripts.o: $(wildcard $(ROOT)/lua/*.lua)
$(OUT)/src/redis/scripts.o: CXXFLAGS += -fno-lto -Wa,-I$(ROOT)/lua

PARTS ?= 4
ifndef SEPARATE
JOINED := $(shell $(ROOT)/src/join_sources $(OUT)/joined $(PARTS) $(abspath $(filter-out $(ALONE),$(SOURCES))))
SOURCES := $(filter $(ALONE),$(SOURCES))
endif
OBJECTS := $(JOINED:.cpp=.o) $(patsubst %.cpp,$(OUT)/%.o,$(patsubst $(ROOT)/%,%,$(SOURCES)))

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
	printf '#include <%s>\n' $(STD) >$(@:.gch=)
	$(CXX) $(CXXFLAGS) -x c++-header $(@:.gch=) -o $@

# The same sources make the same program in any folder, at any time.
CXXFLAGS += -Wdate-time -ffile-prefix-map=$(abspath $(ROOT))=.

-include $(OBJECTS:.o=.d)
