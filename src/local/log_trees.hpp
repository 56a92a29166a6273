// The local logs of a node, by their names.
#pragma once

#include <cstddef>
#include <string_view>

#include "local/local_log.hpp"
#include "ngx.hpp"

namespace sliding_log {

/// Many small trees in shared memory, one of which a hash chooses: each level of a large tree is a line of memory that
/// is not in the cache. Plain data. What a killed worker leaves of them is reset() by the next one.
class LogTrees {
  public:
    /// Makes the trees for a zone of so many bytes; false: it has no room for them.
    bool init(ngx_slab_pool_t& pool, std::size_t bytesOfZone);

    /// Forgets all logs.
    void reset();

    static ngx_uint_t hashOf(std::string_view name);

    /// `hash`: that of the name. nullptr: there is none.
    LocalLog* find(ngx_uint_t hash, std::string_view name) const;

    /// A log whose name is not there yet.
    void insert(ngx_uint_t hash, LocalLog& log);
    void erase(LocalLog& log);

  private:
    ngx_rbtree_t& treeOf(ngx_uint_t hash) const;

    ngx_rbtree_t* trees_;
    std::size_t count_;
    ngx_rbtree_node_t end_;  // of all of them
};

}  // namespace sliding_log
