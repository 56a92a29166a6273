#include "routing.hpp"

#include <vector>

#include "redis/hash_slots.hpp"
#include "state.hpp"

namespace simulate {

namespace {

std::uint16_t slotOf(std::string_view key) {
    return sliding_log::hashSlotOf(key);
}

struct Range {
    std::size_t first;
    std::size_t last;
    int owner;
};

/// Slots in succession of the same master.
std::vector<Range> rangesOf(const ClusterView& cluster) {
    std::vector<Range> ranges;
    for (std::size_t slot = 0; slot < ClusterView::kSlots; slot++) {
        const int owner = cluster.owner[slot];
        if (!ranges.empty() && ranges.back().owner == owner) {
            ranges.back().last = slot;
        } else {
            ranges.push_back({slot, slot, owner});
        }
    }
    std::erase_if(ranges, [](const Range& range) { return range.owner == ClusterView::kNobody; });
    return ranges;
}

void tellNode(std::string& reply, const ClusterView::Node& node) {
    appendArray(reply, 4);
    appendBulk(reply, node.host);
    appendInteger(reply, node.port);
    appendBulk(reply, node.id);
    appendArray(reply, 0);
}

}  // namespace

Route routeOf(Execution& execution, const CommandRow& row, Words words) {
    const ServerState& state = execution.state();
    const std::vector<std::string_view> keys = state.cluster ? keysOf(row, words) : std::vector<std::string_view>();
    if (keys.empty() || execution.obeysMaster()) {
        return {};
    }
    const ClusterView& cluster = *state.cluster;
    const std::uint16_t slot = slotOf(keys.front());
    const int owner = cluster.owner[slot];
    for (const std::string_view key : keys) {
        if (slotOf(key) != slot) {
            return {.kind = Route::CrossSlot, .slot = slot};
        }
    }
    if (owner == ClusterView::kNobody) {
        return {.kind = Route::NotServed, .slot = slot};
    }
    if (cluster.isDown) {
        return {.kind = Route::Down, .slot = slot};
    }
    const auto leaves = cluster.migrating.find(slot);
    const bool isLeaving = owner == cluster.self && leaves != cluster.migrating.end();
    const bool isComing = cluster.importing.contains(slot);
    std::size_t missing = 0;
    for (std::size_t i = 0; (isLeaving || isComing) && i < keys.size(); i++) {
        missing += execution.find(keys[i]) == nullptr ? 1 : 0;
    }
    if (isLeaving && missing > 0) {
        return missing < keys.size() ? Route{.kind = Route::TryAgain, .slot = slot}
                                     : Route{.kind = Route::Ask, .slot = slot, .node = leaves->second};
    }
    const Client* client = execution.client();
    if (isComing && client != nullptr && client->isAsking) {
        return keys.size() > 1 && missing > 0 ? Route{.kind = Route::TryAgain, .slot = slot} : Route{.slot = slot};
    }
    const bool mayRead = client != nullptr && client->isReadOnly && (row.flags & (kWrites | kRunsScript)) == 0 &&
                         cluster.nodes[static_cast<std::size_t>(cluster.self)].master == owner;
    return owner == cluster.self || mayRead ? Route{.slot = slot}
                                            : Route{.kind = Route::Moved, .slot = slot, .node = owner};
}

std::string errorOf(const Route& route, const ClusterView& cluster) {
    const auto to = [&](const char* word) {
        const ClusterView::Node& node = cluster.nodes[static_cast<std::size_t>(route.node)];
        return std::string(word)
            .append(" ")
            .append(std::to_string(route.slot))
            .append(" ")
            .append(node.host)
            .append(":")
            .append(std::to_string(node.port));
    };
    switch (route.kind) {
        case Route::Here:
            break;
        case Route::CrossSlot:
            return "CROSSSLOT Keys in request don't hash to the same slot";
        case Route::TryAgain:
            return "TRYAGAIN Multiple keys request during rehashing of slot";
        case Route::Ask:
            return to("ASK");
        case Route::Moved:
            return to("MOVED");
        case Route::NotServed:
            return "CLUSTERDOWN Hash slot not served";
        case Route::Down:
            return "CLUSTERDOWN The cluster is down";
    }
    return {};
}

void tellSlots(std::string& reply, const ClusterView& cluster) {
    const std::vector<Range> ranges = rangesOf(cluster);
    appendArray(reply, ranges.size());
    for (const Range& range : ranges) {
        std::vector<const ClusterView::Node*> told = {&cluster.nodes[static_cast<std::size_t>(range.owner)]};
        for (const ClusterView::Node& node : cluster.nodes) {
            if (node.master == range.owner) {
                told.push_back(&node);
            }
        }
        appendArray(reply, 2 + told.size());
        appendInteger(reply, static_cast<std::int64_t>(range.first));
        appendInteger(reply, static_cast<std::int64_t>(range.last));
        for (const ClusterView::Node* node : told) {
            tellNode(reply, *node);
        }
    }
}

std::string nodesText(const ClusterView& cluster) {
    std::string text;
    for (std::size_t i = 0; i < cluster.nodes.size(); i++) {
        const ClusterView::Node& node = cluster.nodes[i];
        const bool isMaster = node.master == ClusterView::kNobody;
        text.append(node.id).append(" ").append(node.host).append(":").append(std::to_string(node.port));
        text.append("@").append(std::to_string(node.port + 10000));
        text.append(static_cast<int>(i) == cluster.self ? " myself," : " ");
        text.append(isMaster ? "master - " : "slave ");
        text.append(isMaster ? "" : cluster.nodes[static_cast<std::size_t>(node.master)].id + " ");
        text.append("0 0 1 connected");
        for (const Range& range : rangesOf(cluster)) {
            if (range.owner == static_cast<int>(i)) {
                text.append(" ").append(std::to_string(range.first));
                text.append(range.first == range.last ? "" : "-" + std::to_string(range.last));
            }
        }
        text.append("\n");
    }
    return text;
}

}  // namespace simulate
