#include "engine/strategy/communicator.h"

#include "base/check.h"

namespace paddle::strategy {
namespace {

// Weights of the window so far and of a batch that is merged into it.
struct Weights {
  float window = 1;
  float batch = 1;
};

Weights weights_of(wire::Merge merge, std::uint64_t window_samples, std::uint64_t samples) {
  const std::uint64_t all = window_samples + samples;
  if (merge == wire::MERGE_SUM || all == 0) return {};
  const auto fraction = [all](std::uint64_t part) {
    return static_cast<float>(static_cast<double>(part) / static_cast<double>(all));
  };
  return {fraction(window_samples), fraction(samples)};
}

void add(std::span<float> to, std::span<const float> from, Weights by) {
  PADDLE_CHECK(to.size() == from.size());
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = by.window * to[i] + by.batch * from[i];
}

void append(std::vector<float>& to, const std::vector<float>& from, std::size_t row,
            std::size_t width, float by) {
  for (std::size_t i = 0; i < width; ++i) to.push_back(by * from[row * width + i]);
}

// Merges rows that are sorted by id. A row that one side lacks counts as zeros there.
void add(client::SparseRows& to, const client::SparseRows& from, Weights by,
         const parameter::RowNotes& notes) {
  if (from.ids.empty() && by.window == 1) return;
  const std::size_t width = from.ids.empty()
                                ? (to.ids.empty() ? 0 : to.gradients.size() / to.ids.size())
                                : from.gradients.size() / from.ids.size();
  client::SparseRows merged;
  merged.parameter = to.parameter;
  merged.ids.reserve(to.ids.size() + from.ids.size());
  merged.gradients.reserve(to.gradients.size() + from.gradients.size());
  for (std::size_t a = 0, b = 0; a < to.ids.size() || b < from.ids.size();) {
    const bool has_a = a < to.ids.size() && (b == from.ids.size() || to.ids[a] <= from.ids[b]);
    const bool has_b = b < from.ids.size() && (a == to.ids.size() || from.ids[b] <= to.ids[a]);
    merged.ids.push_back(has_a ? to.ids[a] : from.ids[b]);
    if (has_a) append(merged.gradients, to.gradients, a, width, by.window);
    if (has_b && !has_a) append(merged.gradients, from.gradients, b, width, by.batch);
    if (has_b && has_a) {
      float* const sum = merged.gradients.data() + merged.gradients.size() - width;
      for (std::size_t i = 0; i < width; ++i) sum[i] += by.batch * from.gradients[b * width + i];
    }
    append(merged.notes, has_a ? to.notes : from.notes, has_a ? a : b, notes.size(), 1);
    if (has_b && has_a) {
      notes.add(merged.notes.data() + merged.notes.size() - notes.size(),
                from.notes.data() + b * notes.size());
    }
    a += has_a ? 1 : 0;
    b += has_b ? 1 : 0;
  }
  to = std::move(merged);
}

}  // namespace

void Communicator::on_gradient(const client::PushTotals& totals,
                               std::span<const client::DenseParameter> dense,
                               std::span<const client::SparseRows> rows) {
  if (open_.batches == 0) {
    for (const client::DenseParameter& one : dense)
      open_.dense.push_back({one.parameter, {}, one.gradient});
    for (const client::SparseRows& one : rows) {
      open_.rows.push_back({one.parameter, one.ids, {}, one.gradients, one.notes});
    }
  } else {
    PADDLE_CHECK(dense.size() == open_.dense.size() && rows.size() == open_.rows.size());
    const Weights by = weights_of(options_.merge, open_.samples, totals.samples);
    for (std::size_t i = 0; i < dense.size(); ++i) {
      add(open_.dense[i].gradient, dense[i].gradient, by);
    }
    const parameter::RowNotes none{wire::TablePolicy()};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      add(open_.rows[i], rows[i], by, options_.notes.empty() ? none : options_.notes[i]);
    }
  }
  open_.batches += totals.batches;
  open_.samples += totals.samples;
  open_.cost += totals.cost;
  if (open_.batches >= options_.max_merge) flush();
}

void Communicator::flush() {
  if (open_.batches == 0) return;
  open_.number = ++closed_;
  queue_.push_back(std::move(open_));
  open_ = Window();
}

Window* Communicator::send() {
  if (is_sent_ || queue_.empty()) return nullptr;
  is_sent_ = true;
  return &queue_.front();
}

void Communicator::on_answer() {
  PADDLE_CHECK(is_sent_);
  is_sent_ = false;
  answered_ = queue_.front().number;
  queue_.pop_front();
}

}  // namespace paddle::strategy
