// Columns that stand below each other.
#pragma once

#include <string>
#include <vector>

namespace sliding_log::tool {

class Table {
  public:
    enum class Align { Left, Right };
    struct Column {
        std::string title;
        Align align = Align::Left;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    /// One cell per column: printable text.
    void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

    /// The titles, unless all are empty, and the rows, two blanks between columns.
    std::string text() const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace sliding_log::tool
