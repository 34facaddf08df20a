#include "engine/table/recency_list.h"

namespace paddle::table {

Status RecencyList::reserve(std::uint64_t rows) {
  return nodes_.reserve(rows * sizeof(Node));
}

void RecencyList::push_front(std::uint32_t number, std::uint64_t id) {
  at(number) = {kEnd, head_, id};
  (head_ == kEnd ? tail_ : at(head_).before) = number;
  head_ = number;
}

void RecencyList::remove(std::uint32_t number) {
  const Node node = at(number);
  (node.before == kEnd ? head_ : at(node.before).after) = node.after;
  (node.after == kEnd ? tail_ : at(node.after).before) = node.before;
}

void RecencyList::move_to_front(std::uint32_t number) {
  if (head_ == number) return;
  remove(number);
  push_front(number, at(number).id);
}

void RecencyList::renumber(std::uint32_t from, std::uint32_t to) {
  const Node node = at(from);
  at(to) = node;
  (node.before == kEnd ? head_ : at(node.before).after) = to;
  (node.after == kEnd ? tail_ : at(node.after).before) = to;
}

}  // namespace paddle::table
