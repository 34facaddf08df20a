// Dense parameters of a rank in the memory of its card. Every rank sums all gradients and makes the
// whole update, which has the same bits on each rank.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "engine/gpu/card_group.h"
#include "engine/gpu/handles.h"
#include "engine/group/dense_ranks.h"
#include "engine/group/group.h"
#include "engine/math/optimizer.h"

namespace paddle::strategy {

class CardRanks final : public DenseRanks {
 public:
  struct Options {
    device::ComputeStream compute;  // computes the gradients, and reads the updated values
    std::string job;                // the job's name, for messages of NCCL
    // Whether NCCL's own connections, neither authenticated nor encrypted, may leave this host.
    bool may_be_clear = false;
    // Least size of a sum between cards. NCCL starts a thread for each sum, which takes the
    // training thread up to 0.1 ms: as long as a sum of some MiB.
    std::uint64_t bucket_elements = 4 * kBucketElements;
  };
  // Whether the gradients of the set are only summed and used in updates, which a card can do.
  static bool can_keep(const wire::ParameterSet& set);
  // REQUIRES: the set is valid, and can_keep() it. The set, the group and the device outlive the
  // parameters. kResource: the card has no room, or there is no NCCL. kUsage: NCCL may not leave
  // this host.
  static Result<std::unique_ptr<CardRanks>> create(const wire::ParameterSet& set,
                                                   collective::Group& group, Options options);
  ~CardRanks() override;

  Status lend(std::span<client::DenseParameter> parameters) override;
  // The gradients are in place already; a rank without a batch has none.
  Result<std::string> take(std::span<client::DenseParameter> parameters) override;
  std::span<float> carried() override { return {}; }
  bool begins_early() const override { return true; }
  // REQUIRES: the card's executor has enqueued all work of the batch.
  Status begin_sum(std::span<const float> shares) override;
  Status update(std::span<const float> shares, float learning_rate) override;
  Status settle() override { return finish(); }

  Status gather(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                std::span<float> into) override;
  Status spread(std::uint32_t root, std::uint32_t parameter, std::uint32_t plane,
                std::span<const float> from, std::uint64_t update_count) override;
  std::uint64_t part_floats() const override { return part(group_.rank()).size() * planes(); }
  Status read_part(const Put& put) override;
  Status restore_parts(const Take& take, std::span<const std::uint64_t> update_counts) override;
  void interrupt(const Error& why) override;

  std::uint64_t update_count(std::uint32_t parameter) const override {
    return update_counts_[parameter];
  }
  std::uint32_t state_width() const override { return state_width_; }
  const GroupLayout& layout() const override { return layout_; }

 private:
  // Memory for the copies to and from the card of one update.
  struct Turn {
    explicit Turn(device::Device& device) : updates(device), on_card(device) {}
    device::PinnedMemory<kernels::device::UpdatedParameter> updates;
    device::CardMemory<kernels::device::UpdatedParameter> on_card;
  };

  // Neighbouring parameters, whose gradients are summed together.
  struct Bucket {
    ElementRange elements;
    device::Event written;  // recorded by the card's executor after the last of the gradients
  };
  // Sums between cards, which run beside the computation.
  struct Sums {
    device::Stream stream;
    device::Event done;
  };

  CardRanks(const wire::ParameterSet& set, collective::Group& group, Options options);
  Status join_cards();
  Status start();
  Status make_buckets();
  Bucket& bucket_of(std::uint32_t parameter);
  // Multiplies the gradients of the range by this rank's share.
  void weigh(device::StreamHandle stream, ElementRange range, float share);
  std::uint64_t planes() const { return 1 + state_width_; }
  // The elements that a rank saves in a savepoint.
  ElementRange part(std::uint32_t rank) const;
  float* plane(std::uint32_t number) const;
  // Calls use(elements) for parts of a range that fit into room_.
  Status in_turns(ElementRange range, const std::function<Status(ElementRange)>& use) const;
  // The first float of a plane of a parameter.
  float* at(std::uint32_t parameter, std::uint32_t plane) const;
  Status write(float* to, std::span<const float> from);
  // Waits for the last update alone: the card may compute the next batch meanwhile.
  Status finish();
  // Waits for all that the card has been given.
  Status wait();
  // Waits until done_ has come.
  Status await();

  const wire::ParameterSet& set_;
  collective::Group& group_;
  const Options options_;
  device::Device& device_;
  GroupLayout layout_;
  std::uint32_t state_width_;
  std::vector<optim::UpdateRule> rules_;      // in the order of layout_.dense()
  std::vector<std::uint32_t> updated_;        // parameters that are not static
  std::vector<std::uint64_t> update_counts_;  // by parameter
  device::CardMemory<float> values_;
  device::CardMemory<float> gradients_;
  device::CardMemory<float> state_;   // planes of all elements
  device::PinnedMemory<float> room_;  // for what is copied to the host or from it
  std::uint64_t room_floats_ = 0;
  std::unique_ptr<Turn> turn_;
  std::optional<device::Event> done_;
  bool is_under_way_ = false;
  // In the order of their sums: the gradients of the last parameters are written first.
  std::vector<Bucket> buckets_;
  std::optional<Sums> sums_;
  bool has_begun_sum_ = false;
  std::unique_ptr<device::CardGroup> cards_;  // null: this rank is alone
};

}  // namespace paddle::strategy
