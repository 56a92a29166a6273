#include "store/local_log.hpp"

namespace sliding_log {

namespace {

constexpr std::size_t kRest = kCellBytes - sizeof(LocalLog);  // of its cell
constexpr std::size_t kTextOfCell = kCellBytes - sizeof(Cell*);

static_assert(kRest >= 48, "most names are shorter");

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

/// The name from that offset on, at which a part begins, as far as it stands in one piece.
std::string_view partOf(const LocalLog& log, std::size_t offset) {
    if (log.nameLength <= kRest) {
        return {restOf(log), log.nameLength};
    }
    Cell* cell = firstOf(log);
    for (std::size_t begin = 0; begin < offset; begin += kTextOfCell) {
        cell = cell->next;
    }
    return {textOf(cell), std::min(log.nameLength - offset, kTextOfCell)};
}

/// As compareWith(); `textAt(offset)` points to the rest of the other name, or of its part.
template <typename TextAt>
int compare(const LocalLog& log, ngx_uint_t hash, std::size_t length, TextAt textAt) {
    if (hash != log.node.key) {
        return hash < log.node.key ? -1 : 1;
    }
    if (length != log.nameLength) {
        return length < log.nameLength ? -1 : 1;
    }
    int order = 0;
    for (std::size_t offset = 0; order == 0 && offset < length;) {
        const std::string_view part = partOf(log, offset);
        order = std::memcmp(textAt(offset), part.data(), part.size());
        offset += part.size();
    }
    return order;
}

}  // namespace

std::size_t LocalLog::cellsOfName(std::size_t length) {
    return length <= kRest ? 0 : (length + kTextOfCell - 1) / kTextOfCell;
}

void LocalLog::setName(std::string_view name, const Chain& cells) {
    nameLength = static_cast<std::uint32_t>(name.size());
    if (cells.count == 0) {
        std::memcpy(restOf(*this), name.data(), name.size());
        return;
    }
    std::memcpy(restOf(*this), static_cast<const void*>(&cells.first), sizeof cells.first);
    for (Cell* cell = cells.first; !name.empty(); cell = cell->next) {
        const std::string_view part = name.substr(0, kTextOfCell);
        std::memcpy(textOf(cell), part.data(), part.size());
        name.remove_prefix(part.size());
    }
}

Chain LocalLog::nameCells() const {
    const std::size_t count = cellsOfName(nameLength);
    return count == 0 ? Chain() : Chain{firstOf(*this), count};
}

std::span<std::uint8_t> LocalLog::place() {
    const std::size_t begin = nameLength <= kRest ? nameLength : sizeof(Cell*);
    return {reinterpret_cast<std::uint8_t*>(restOf(*this)) + begin, kRest - begin};
}

int compareWith(const LocalLog& log, ngx_uint_t hash, std::string_view name) {
    return compare(log, hash, name.size(), [name](std::size_t offset) { return name.data() + offset; });
}

void insertLocalLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* node, ngx_rbtree_node_t* sentinel) {
    const LocalLog& log = LocalLog::of(node);
    ngx_rbtree_node_t** place = nullptr;
    for (ngx_rbtree_node_t* parent = root;; parent = *place) {
        const int order = compare(LocalLog::of(parent), node->key, log.nameLength,
                                  [&log](std::size_t offset) { return partOf(log, offset).data(); });
        place = order < 0 ? &parent->left : &parent->right;
        if (*place == sentinel) {
            node->parent = parent;
            break;
        }
    }
    *place = node;
    node->left = node->right = sentinel;
    ngx_rbt_red(node);
}

}  // namespace sliding_log
