#include "table.hpp"

#include <algorithm>

namespace sliding_log::tool {

std::string Table::text() const {
    std::vector<std::string> titles;
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); i++) {
        titles.push_back(columns_[i].title);
        widths.push_back(columns_[i].title.size());
        for (const auto& row : rows_) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string out;
    const auto append = [&](const std::vector<std::string>& cells) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); i++) {
            const std::string padding(widths[i] - cells[i].size(), ' ');
            line += i == 0 ? "" : "  ";
            line += columns_[i].align == Align::Right ? padding + cells[i] : cells[i] + padding;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    };
    if (std::ranges::any_of(titles, [](const std::string& title) { return !title.empty(); })) {
        append(titles);
    }
    for (const auto& row : rows_) {
        append(row);
    }
    return out;
}

}  // namespace sliding_log::tool
