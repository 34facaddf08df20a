// The dense parameters of one rank of a group: the values of all of them, and the optimizer's state
// of those that the rank updates. All ranks make the same calls in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/client/batch_parameters.h"
#include "engine/strategy/collective/group_layout.h"

namespace paddle::strategy {

class DenseRanks {
 public:
  DenseRanks() = default;
  virtual ~DenseRanks() = default;
  DenseRanks(const DenseRanks&) = delete;
  DenseRanks& operator=(const DenseRanks&) = delete;

  // Lends the values, and gives the gradients their places. kUsage: no such dense parameter.
  virtual Status lend(std::span<client::DenseParameter> parameters) = 0;
  // Takes the gradients of a batch, zeros where there are none. Returns the name of the first
  // parameter with a gradient that would make its values infinite, or "".
  virtual Result<std::string> take(std::span<client::DenseParameter> parameters) = 0;
  // All gradients, which begin_step() of the group carries because they are small; else none.
  virtual std::span<float> carried() = 0;
  // Whether a sum may begin while the gradients are still being computed.
  virtual bool sums_early() const { return false; }
  // Begins the weighted sum for the next update(), which gets the same shares.
  virtual Status begin_sum(std::span<const float> /*shares*/) { return {}; }
  // One update of the parameters by the weighted sum of all ranks' gradients. kFailed: a value or
  // its optimizer's state is no longer finite.
  virtual Status update(std::span<const float> shares, float learning_rate) = 0;
  // Gives all ranks the owners' values in float32, where they have been rounded on their way, and
  // drops what roundings have left out: as if the parameters had just been loaded.
  virtual Status settle() = 0;

  // Planes of a parameter as in table::DenseTable: 0 is the values, the others are the optimizer's
  // state. Gathers one on the root, where `into` has the parameter's size; elsewhere it is empty.
  virtual Status gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                        std::span<float> into) = 0;
  // Gives all ranks the root's, with the number of updates that led to it.
  virtual Status spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                        std::span<const float> from, std::uint64_t update_count) = 0;

  // The rank's own part of the values and the optimizer's state: those of all ranks are everything.
  // It is the same in every life of the rank. Only where is_settled(), which is alike on all.
  using Put = std::function<Status(std::span<const float> next)>;
  using Take = std::function<Status(std::span<float> next)>;
  virtual std::uint64_t part_floats() const = 0;
  virtual Status read_part(const Put& put) = 0;
  // Every rank brings its own part, and has all that it needs afterwards.
  virtual Status restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) = 0;
  virtual bool is_settled() const { return true; }

  // Ends a wait of theirs for other ranks, beside those for the group. Any thread.
  virtual void interrupt(const Error&) {}

  virtual std::uint64_t update_count(std::uint32_t parameter) const = 0;
  virtual std::uint32_t state_width() const = 0;
  virtual const GroupLayout& layout() const = 0;
};

}  // namespace paddle::strategy
