# The objects of programs without nginx: those of src/ in $(OUT)/src, those of the folder itself in $(OUT). The folder sets
# ROOT, OUT, CXXFLAGS and OBJECTS. With PRECOMPILED=1, of tests, g++ reads the headers of the standard library once for all,
# and those in MORE_HEADERS.

STD := algorithm array atomic bitset charconv chrono cmath cstdio cstdlib cstring deque functional limits list map memory \
       new optional ranges set span string string_view thread tuple unordered_map utility variant vector
HEADERS := $(if $(PRECOMPILED),$(OUT)/std.hpp)

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
