// Text in aligned columns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "colour.hpp"

namespace sliding_log::tool {

class Table {
  public:
    enum class Align { Left, Right };
    struct Column {
        std::string title;
        Align align = Align::Left;
    };

    struct Cell {
        Cell(std::string ofText, Colour ofColour = Colour::None) : text(std::move(ofText)), colour(ofColour) {}
        Cell(const char* ofText, Colour ofColour = Colour::None) : text(ofText), colour(ofColour) {}

        std::string text;  // printable
        Colour colour;
    };

    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    /// One cell per column.
    void row(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

    /// The titles, unless all are empty, and the rows, two blanks between columns.
    std::string text() const;

  private:
    std::vector<Column> columns_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace sliding_log::tool
