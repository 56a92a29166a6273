// Runs a target over the files of a corpus once, without a fuzzer: TARGET FILE...

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz.hpp"

int main(int count, char** names) {
    for (int i = 1; i < count; i++) {
        std::ifstream file(names[i], std::ios::binary);
        const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        if (!file) {
            std::fprintf(stderr, "cannot read %s\n", names[i]);
            return 1;
        }
        // a block of the exact size, so that AddressSanitizer detects a read beyond its end
        const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
    std::printf("%-14s %d inputs\n", std::filesystem::path(names[0]).filename().c_str(), count - 1);
    return count > 1 ? 0 : 1;
}
