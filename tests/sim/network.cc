#include "tests/sim/network.h"

#include <algorithm>

namespace paddle::sim {
namespace {

bool is_later(const Event& a, const Event& b) {
  return a.at != b.at ? a.at > b.at : a.order > b.order;
}

}  // namespace

Network::Network(const ClusterOptions& options, std::uint32_t trainers)
    : options_(options),
      rng_(hash_combine(options.seed, 0x6e6574776f726b)),
      links_(std::size_t{trainers} * options.pservers) {}

Event Network::pop() {
  std::ranges::pop_heap(heap_, is_later);
  Event event = std::move(heap_.back());
  heap_.pop_back();
  return event;
}

void Network::schedule(Event event, Duration after) {
  event.at = now_ + after;
  event.order = order_++;
  heap_.push_back(std::move(event));
  std::ranges::push_heap(heap_, is_later);
}

net::PeerId Network::connect(Connection connection) {
  connections_.push_back(connection);
  return connections_.size() - 1;
}

Duration Network::random_delay() {
  return std::chrono::milliseconds(1 + rng_.below(options_.delay_max_ms));
}

void Network::transmit(net::PeerId peer, bool to_shard, Frame&& frame) {
  const Connection& connection = connections_[peer];
  if (is_cut(connection.trainer, connection.shard % options_.pservers, to_shard)) return;
  const int copies = !is_calm_ && rng_.uniform() < options_.duplicate ? 2 : 1;
  for (int left = copies; left > 0; --left) {
    if (!is_calm_ && rng_.uniform() < options_.drop) continue;
    schedule({.to_shard = to_shard, .peer = peer, .frame = left == 1 ? std::move(frame) : frame},
             random_delay());
  }
}

void Network::transmit_last(net::PeerId peer, Frame&& frame) {
  Connection& connection = connections_[peer];
  connection.is_open_at_shard = false;
  const Duration after = random_delay();
  if (!is_cut(connection.trainer, connection.shard % options_.pservers, false)) {
    schedule({.to_shard = false, .peer = peer, .frame = std::move(frame)}, after);
  }
  close(peer, true, after);
}

void Network::close(net::PeerId peer, bool at_shard) {
  Connection& connection = connections_[peer];
  bool& is_open = at_shard ? connection.is_open_at_shard : connection.is_open_at_trainer;
  if (!std::exchange(is_open, false)) return;
  const std::uint32_t pserver = connection.shard % options_.pservers;
  Duration after = random_delay();
  if (is_cut(connection.trainer, pserver, !at_shard)) {
    after = std::max(after, link(connection.trainer, pserver).since + kSilenceMax - now_);
  }
  close(peer, at_shard, after);
}

void Network::close(net::PeerId peer, bool at_shard, Duration after) {
  schedule({.kind = EventKind::kClosed, .to_shard = !at_shard, .peer = peer}, after);
}

Network::Link& Network::link(std::uint32_t trainer, std::uint32_t pserver) {
  return links_[std::size_t{trainer} * options_.pservers + pserver];
}

const Network::Link& Network::link(std::uint32_t trainer, std::uint32_t pserver) const {
  return links_[std::size_t{trainer} * options_.pservers + pserver];
}

void Network::cut(std::uint32_t trainer, std::uint32_t pserver, bool to_shard, bool to_trainer) {
  link(trainer, pserver) = {to_shard, to_trainer, now_};
}

void Network::heal(std::uint32_t trainer, std::uint32_t pserver) {
  link(trainer, pserver) = {};
}

bool Network::is_cut(std::uint32_t trainer, std::uint32_t pserver, bool to_shard) const {
  const Link& one = link(trainer, pserver);
  return to_shard ? one.to_shard : one.to_trainer;
}

}  // namespace paddle::sim
