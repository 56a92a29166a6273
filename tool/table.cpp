#include "table.hpp"

#include <algorithm>

namespace sliding_log::tool {

std::string Table::text() const {
    std::vector<Cell> titles;
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns_.size(); i++) {
        titles.emplace_back(columns_[i].title, Colour::Title);
        widths.push_back(columns_[i].title.size());
        for (const auto& row : rows_) {
            widths[i] = std::max(widths[i], row[i].text.size());
        }
    }
    std::string out;
    const auto append = [&](const std::vector<Cell>& cells) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); i++) {
            const std::string padding(widths[i] - cells[i].text.size(), ' ');
            const std::string text = coloured(cells[i].text, cells[i].colour);
            line += i == 0 ? "" : "  ";
            line += columns_[i].align == Align::Right ? padding + text : text + padding;
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    };
    if (std::ranges::any_of(titles, [](const Cell& title) { return !title.text.empty(); })) {
        append(titles);
    }
    for (const auto& row : rows_) {
        append(row);
    }
    return out;
}

}  // namespace sliding_log::tool
