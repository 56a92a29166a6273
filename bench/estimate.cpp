// Prints the estimates of src/store/work.hpp. Each line of the input is a request:
//   ALGORITHM LIMIT COST NAMED COUNTS_ALL DELAY_MS BLOCK_MS SAMPLE PERMITS
// and each line of the output is what a call of this request alone is expected to take, and what each request more of
// the same batch adds, in ns.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <string>

#include "store/work.hpp"

int main() {
    using namespace sliding_log;
    std::string name;
    Check check;
    int named = 0;
    int countsAll = 0;
    std::int64_t permits = 0;
    while (std::cin >> name >> check.limit >> check.cost >> named >> countsAll >> check.delayMs >> check.blockMs >>
           check.sample >> permits) {
        const auto row = std::ranges::find(kAlgorithms, name, &AlgorithmRow::name);
        if (row == kAlgorithms.end()) {
            std::fprintf(stderr, "no algorithm %s\n", name.c_str());
            return 1;
        }
        check.algorithm = row->algorithm;
        check.named = named != 0;
        check.countsAll = countsAll != 0;
        check.cap = check.limit;
        check.aheadMs = check.delayMs;
        check.burst = check.limit;
        check.windowMs = std::int64_t{366} * 86'400'000;  // Bench::WorstCalls::WINDOW
        const std::int64_t each = workOfRequest(check);
        Check lot = check;
        lot.cost *= permits;
        const std::int64_t ofLot = permits > 0 ? workOfRequest(lot) : 0;
        std::printf("%" PRId64 " %" PRId64 "\n", workOfLogs({&check, 1}) + ofLot + each, each);
    }
}
