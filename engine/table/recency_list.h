// Rows by recency, from the most recently named one to the least: a linked list over row numbers,
// with the id of each.
#pragma once

#include <cstdint>

#include "engine/memory/region.h"

namespace paddle::table {

class RecencyList {
 public:
  static constexpr std::uint64_t kBytesPerRow = 16;

  static constexpr std::uint32_t kEnd = 0xffffffff;

  RecencyList() : nodes_(kSmallPageRows * sizeof(Node)) {}
  Status reserve(std::uint64_t rows) { return nodes_.reserve(rows * sizeof(Node)); }
  std::uint64_t bytes(std::uint64_t rows) const { return nodes_.resident(rows * sizeof(Node)); }

  void push_front(std::uint32_t number, std::uint64_t id) {
    at(number) = {kEnd, head_, id};
    (head_ == kEnd ? tail_ : at(head_).before) = number;
    head_ = number;
  }
  void move_to_front(std::uint32_t number) {
    if (head_ == number) return;
    remove(number);
    push_front(number, at(number).id);
  }
  std::uint32_t oldest() const { return tail_; }
  // The row that was named next, or kEnd.
  std::uint32_t newer_than(std::uint32_t number) const { return at(number).before; }
  std::uint64_t id_of(std::uint32_t number) const { return at(number).id; }
  void remove(std::uint32_t number) {
    const Node node = at(number);
    (node.before == kEnd ? head_ : at(node.before).after) = node.after;
    (node.after == kEnd ? tail_ : at(node.after).before) = node.before;
  }
  // The row takes another number, keeping its place.
  void renumber(std::uint32_t from, std::uint32_t to) {
    const Node node = at(from);
    at(to) = node;
    (node.before == kEnd ? head_ : at(node.before).after) = to;
    (node.after == kEnd ? tail_ : at(node.after).before) = to;
  }

 private:
  static constexpr std::uint64_t kSmallPageRows = 2U << 20U;
  struct Node {
    std::uint32_t before;  // named more recently
    std::uint32_t after;
    std::uint64_t id;
  };
  static_assert(sizeof(Node) == kBytesPerRow);
  Node& at(std::uint32_t number) const { return reinterpret_cast<Node*>(nodes_.data())[number]; }

  MemoryRegion nodes_;
  std::uint32_t head_ = kEnd;
  std::uint32_t tail_ = kEnd;
};

}  // namespace paddle::table
