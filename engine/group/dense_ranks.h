// The dense parameters of one rank of a group: the values of all of them, and the optimizer's state
// of the elements that the rank updates. All ranks make the same calls in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "engine/client/batch_parameters.h"
#include "engine/group/group_layout.h"

namespace paddle::strategy {

class DenseRanks {
 public:
  DenseRanks() = default;
  virtual ~DenseRanks() = default;
  DenseRanks(const DenseRanks&) = delete;
  DenseRanks& operator=(const DenseRanks&) = delete;

  // Points each parameter to the memory of its values and of its gradient. kUsage: there is no such
  // dense parameter.
  virtual Status lend(std::span<client::DenseParameter> parameters) = 0;
  // Takes the gradients of a batch, with zeros for parameters without a gradient. Returns the name
  // of the first parameter with a gradient that would make its values infinite, or "".
  virtual Result<std::string> take(std::span<client::DenseParameter> parameters) = 0;
  // All gradients, if they are so small that the group's begin_step() sums them at once; else an
  // empty span.
  virtual std::span<float> carried() = 0;
  // Whether begin_sum(), or the update() of an only rank, may come while the gradients are still
  // being computed.
  virtual bool begins_early() const { return false; }
  // Begins the weighted sum for the next update(), which must get the same shares.
  virtual Status begin_sum(std::span<const float> /*shares*/) { return {}; }
  // Updates the parameters by the weighted sum of all ranks' gradients. kFailed: a value or its
  // optimizer's state is not finite.
  virtual Status update(std::span<const float> shares, float learning_rate) = 0;
  // If values are rounded when they are sent, sends the owners' float32 values to all ranks and
  // drops the rounding residuals. The state is then as after a load.
  virtual Status settle() = 0;

  // Gathers a plane of a parameter on the root, where `into` has the parameter's size; on other
  // ranks it is empty. Planes are as in table::DenseTable: 0 is the values, the others are the
  // optimizer's state.
  virtual Status gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                        std::span<float> into) = 0;
  // Sends the root's plane to all ranks, with the number of updates that led to it.
  virtual Status spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                        std::span<const float> from, std::uint64_t update_count) = 0;

  // The rank's own part of the values and the optimizer's state. A restarted rank has the same
  // part; the parts of all ranks together are the whole state. REQUIRES: is_settled(), which is the
  // same on all ranks.
  using Put = std::function<Status(std::span<const float> next)>;
  using Take = std::function<Status(std::span<float> next)>;
  virtual std::uint64_t part_floats() const = 0;
  virtual Status read_part(const Put& put) = 0;
  // Every rank provides its own part; afterwards every rank has all that it needs.
  virtual Status restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) = 0;
  virtual bool is_settled() const { return true; }

  // Ends waits for other ranks outside of the group's own calls, such as those of the cards. Any
  // thread may call it.
  virtual void interrupt(const Error&) {}

  virtual std::uint64_t update_count(std::uint32_t parameter) const = 0;
  virtual std::uint32_t state_width() const = 0;
  virtual const GroupLayout& layout() const = 0;
};

}  // namespace paddle::strategy
