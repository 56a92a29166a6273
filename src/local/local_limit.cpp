#include "local/local_limit.hpp"

#include <cstdint>
#include <cstring>
#include <functional>

namespace sliding_log {

namespace {

std::uint32_t hashOfName(std::string_view name) {
    return static_cast<std::uint32_t>(std::hash<std::string_view>()(name));
}

}  // namespace

void LocalLimits::init() {
    ngx_rbtree_init(&byName, &sentinel, ngx_str_rbtree_insert_value);
    ngx_queue_init(&all);
    limits = cells = 0;
}

LocalLimit* LocalLimits::find(std::string_view name) {
    ngx_str_t text = toNgx(name);
    return reinterpret_cast<LocalLimit*>(ngx_str_rbtree_lookup(&byName, &text, hashOfName(name)));
}

LocalLimit& LocalLimits::make(Cell& cell, std::string_view name) {
    auto* limit = new (static_cast<void*>(&cell)) LocalLimit();
    auto* text = reinterpret_cast<u_char*>(limit + 1);
    std::memcpy(text, name.data(), name.size());
    limit->byName.str = {name.size(), text};
    limit->byName.node.key = hashOfName(name);
    ngx_rbtree_insert(&byName, &limit->byName.node);
    ngx_queue_insert_tail(&all, &limit->link);
    ngx_queue_init(&limit->logs);
    limits++;
    return *limit;
}

void LocalLimits::erase(LocalLimit& limit) {
    ngx_rbtree_delete(&byName, &limit.byName.node);
    ngx_queue_remove(&limit.link);
    limits--;
}

LocalLimit& LocalLimits::next() {
    ngx_queue_t* first = ngx_queue_head(&all);
    ngx_queue_remove(first);
    ngx_queue_insert_tail(&all, first);
    return LocalLimit::of(first);
}

}  // namespace sliding_log
