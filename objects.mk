# The objects of programs without nginx: those of src/ in $(OUT)/src, those of the folder itself in $(OUT). The folder sets
# ROOT, OUT, CXXFLAGS and OBJECTS.

$(OUT)/src/%.o: $(ROOT)/src/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c $< -o $@

$(OUT)/%.o: %.cpp
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c $< -o $@

# The same sources make the same program in any folder, at any time.
CXXFLAGS += -Wdate-time -ffile-prefix-map=$(abspath $(ROOT))=.

-include $(OBJECTS:.o=.d)
