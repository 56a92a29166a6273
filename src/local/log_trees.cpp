#include "local/log_trees.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

namespace sliding_log {

namespace {

constexpr std::size_t kBytesForTree = 4096;  // of the zone: some 20 logs

/// Less than, equal to or greater than 0: (hash, name) compared with that of the log. Names are compared if hashes are
/// equal, so that no choice of keys makes the tree degenerate.
int compareWith(const LocalLog& log, ngx_uint_t hash, std::string_view name) {
    if (hash != log.treeNode.key) {
        return hash < log.treeNode.key ? -1 : 1;
    }
    return log.compareName(name);
}

/// nginx's rbtree insertion for logs.
void insertLog(ngx_rbtree_node_t* root, ngx_rbtree_node_t* treeNode, ngx_rbtree_node_t* sentinel) {
    LocalLog::NameBuffer buffer;
    const std::string_view name = LocalLog::of(treeNode).name(buffer);
    ngx_rbtree_node_t** link = nullptr;
    for (ngx_rbtree_node_t* parent = root;; parent = *link) {
        link = compareWith(LocalLog::of(parent), treeNode->key, name) < 0 ? &parent->left : &parent->right;
        if (*link == sentinel) {
            treeNode->parent = parent;
            break;
        }
    }
    *link = treeNode;
    treeNode->left = treeNode->right = sentinel;
    ngx_rbt_red(treeNode);
}

}  // namespace

bool LogTrees::init(ngx_slab_pool_t& pool, std::size_t bytesOfZone) {
    count_ = std::max<std::size_t>(bytesOfZone / kBytesForTree, 1);
    trees_ = static_cast<ngx_rbtree_t*>(ngx_slab_calloc(&pool, count_ * sizeof(ngx_rbtree_t)));
    if (trees_ == nullptr) {
        return false;
    }
    reset();
    return true;
}

void LogTrees::reset() {
    for (std::size_t i = 0; i < count_; i++) {
        ngx_rbtree_init(&trees_[i], &end_, insertLog);
    }
}

ngx_uint_t LogTrees::hashOf(std::string_view name) {
    return std::hash<std::string_view>()(name);
}

LocalLog* LogTrees::find(ngx_uint_t hash, std::string_view name) const {
    ngx_rbtree_node_t* treeNode = treeOf(hash).root;
    while (treeNode != &end_) {
        LocalLog& log = LocalLog::of(treeNode);
        const int order = compareWith(log, hash, name);
        if (order == 0) {
            return &log;
        }
        treeNode = order < 0 ? treeNode->left : treeNode->right;
    }
    return nullptr;
}

void LogTrees::insert(ngx_uint_t hash, LocalLog& log) {
    log.treeNode.key = hash;
    ngx_rbtree_insert(&treeOf(hash), &log.treeNode);
}

void LogTrees::erase(LocalLog& log) {
    ngx_rbtree_delete(&treeOf(log.treeNode.key), &log.treeNode);
}

/// By its lower bits: the upper ones make the order in a tree.
ngx_rbtree_t& LogTrees::treeOf(ngx_uint_t hash) const {
    return trees_[std::uint64_t{static_cast<std::uint32_t>(hash)} * count_ >> 32];
}

}  // namespace sliding_log
