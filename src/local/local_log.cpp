#include "local/local_log.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace sliding_log {

namespace {

constexpr std::size_t kTextOfCell = kCellBytes - sizeof(Cell*);

char* restOf(const LocalLog& log) {
    return const_cast<char*>(reinterpret_cast<const char*>(&log + 1));
}

char* textOf(Cell* cell) {
    return reinterpret_cast<char*>(cell) + sizeof(Cell*);
}

Cell* firstOf(const LocalLog& log) {
    Cell* first = nullptr;
    std::memcpy(static_cast<void*>(&first), restOf(log), sizeof first);
    return first;
}

/// Calls visit(offset, part) for each part of a long name while it returns 0; returns the last result.
template <typename Visit>
int forEachPart(const LocalLog& log, Visit visit) {
    int result = 0;
    Cell* cell = firstOf(log);
    for (std::size_t offset = 0; result == 0 && offset < log.nameLength; offset += kTextOfCell, cell = cell->next) {
        result = visit(offset, std::string_view(textOf(cell), std::min(log.nameLength - offset, kTextOfCell)));
    }
    return result;
}

/// The bytes for the first entries in the first cell of a log.
std::span<std::uint8_t> spareIn(char* cell, std::size_t nameLength) {
    const std::size_t begin = sizeof(LocalLog) + (nameLength <= kRestOfCell ? nameLength : sizeof(Cell*));
    return {reinterpret_cast<std::uint8_t*>(cell) + begin, kCellBytes - begin};
}

void writeName(char* bytes, std::string_view name, const Chain& cells) {
    if (cells.count == 0) {
        std::memcpy(bytes, name.data(), name.size());
        return;
    }
    std::memcpy(bytes, static_cast<const void*>(&cells.first), sizeof cells.first);
    for (Cell* cell = cells.first; !name.empty(); cell = cell->next) {
        const std::string_view part = name.substr(0, kTextOfCell);
        std::memcpy(textOf(cell), part.data(), part.size());
        name.remove_prefix(part.size());
    }
}

}  // namespace

std::size_t LocalLog::cellsOfName(std::size_t length) {
    return length <= kRestOfCell ? 0 : (length + kTextOfCell - 1) / kTextOfCell;
}

LocalLog& LocalLog::make(Chain cells, LocalLimit& limit, const Check& check, std::uint64_t now) {
    const auto count = static_cast<std::uint32_t>(cells.count);
    const std::string_view name = check.localKey();
    auto* memory = reinterpret_cast<char*>(cells.pop());
    writeName(memory + sizeof(LocalLog), name, cells);
    return *new (memory) LocalLog{.treeNode = {},
                                  .used = {},
                                  .limit = &limit,
                                  .transaction = 0,
                                  .clock = now,
                                  .cells = count,
                                  .nameLength = static_cast<std::uint32_t>(name.size()),
                                  .state = LogState(check, now, spareIn(memory, name.size()))};
}

void LocalLog::begin(const Check& check, std::uint64_t now) {
    state = LogState(check, now, spareIn(reinterpret_cast<char*>(this), nameLength));
}

Chain LocalLog::nameCells() const {
    const std::size_t count = cellsOfName(nameLength);
    return count == 0 ? Chain() : Chain{firstOf(*this), count};
}

std::string_view LocalLog::name(NameBuffer& buffer) const {
    if (nameLength <= kRestOfCell) {
        return {restOf(*this), nameLength};
    }
    forEachPart(*this, [&buffer](std::size_t offset, std::string_view part) {
        std::memcpy(buffer + offset, part.data(), part.size());
        return 0;
    });
    return {buffer, nameLength};
}

int LocalLog::compareName(std::string_view name) const {
    if (name.size() != nameLength) {
        return name.size() < nameLength ? -1 : 1;
    }
    if (nameLength <= kRestOfCell) {
        return std::memcmp(name.data(), restOf(*this), nameLength);
    }
    return forEachPart(*this, [name](std::size_t offset, std::string_view part) {
        return std::memcmp(name.data() + offset, part.data(), part.size());
    });
}

}  // namespace sliding_log
