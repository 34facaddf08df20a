// Memory of a trainer that outlives its process: its last push in a round, and its counts of the
// pass. The next life sends the push again, with the same bits, to the ports that lack it.
//
// The memory is a file without a name that the supervisor holds for all lives of the trainer. A
// mark in it, written last, says that a push is whole. Dense gradients are computed in place.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "engine/client/parameter_client.h"
#include "engine/trainer/metrics.h"

namespace paddle::trainer {

// A batch of this trainer, counted from 1 in its pass.
struct BatchNumber {
  std::uint64_t pass = 0;
  std::uint64_t batch = 0;
  friend auto operator<=>(const BatchNumber&, const BatchNumber&) = default;
};

// Counts of a trainer in a pass, up to and with a batch.
struct PassCounts {
  Score score;
  double first_cost = 0;  // of the first batch of the job
};

class KeptPush {
 public:
  struct Options {
    UniqueFd memory;
    std::uint64_t job = 0;          // a hash of what all lives must agree on
    std::uint64_t generations = 0;  // a hash of those of all pservers: a rewind forgets the push
    Tally empty_tally;              // of the network
    bool keeps_dense = false;       // dense gradients are pushed in rounds
    bool keeps_rows = false;        // rows are pushed in rounds
  };
  // Gives the parameters places for their gradients. kResource.
  static Result<std::unique_ptr<KeptPush>> open(Options options,
                                                std::span<client::DenseParameter> dense);
  ~KeptPush();
  KeptPush(const KeptPush&) = delete;
  KeptPush& operator=(const KeptPush&) = delete;

  // The newest of a pass, with the number of batches; of the last pass that was trained, and the
  // one before it.
  std::optional<std::pair<std::uint64_t, PassCounts>> last_counts(std::uint64_t pass) const;
  // The batch whose push is whole, if one is. Its dense gradients are in their places.
  std::optional<BatchNumber> push() const {
    return header_.is_whole != 0 ? std::optional(header_.push) : std::nullopt;
  }
  Result<std::vector<client::SparseRows>> rows() const;
  std::uint64_t samples() const { return header_.samples; }
  double cost() const { return header_.cost; }

  // For data::open_pass(): the places of what it has read.
  std::span<std::byte> pass_index() const { return {mapped_, kIndexBytes}; }

  // Without memory for it, which is logged once, nothing is kept.

  // Before gradients are computed: the places no longer hold the push before.
  void forget_push();
  // Before the batch is pushed. `counts` is null for one that was counted by an earlier life.
  void keep(BatchNumber number, const Score& batch, const PassCounts* counts,
            std::span<const client::SparseRows> rows);
  enum class Line : std::uint32_t { kBatch, kTest };
  // Before a line of the log and the metrics: whether no life has told it, or one after it. Always,
  // without `kept`.
  static bool is_new(KeptPush* kept, Line line, BatchNumber at);
  bool is_told(Line line, BatchNumber at) const { return at <= header_.told[slot_of(line)]; }
  // After they have the totals of a pass.
  void mark_told(std::uint64_t pass);
  bool is_told(std::uint64_t pass) const { return pass < header_.passes_told; }
  // Before the trainer leaves a job that is over.
  void begin_leave();
  // The same for a trainer whose pushes are not kept, and that it does not leave.
  static void note_leaving(const UniqueFd& memory, bool is_leaving);
  // When the first life of a trainer with this memory asked, by the clock of all processes since
  // the machine's boot; `now` without memory.
  static TimePoint first_begin(const UniqueFd& memory, TimePoint now);
  // Where other memory of a trainer may begin that keeps no push, only counts.
  static std::uint64_t end_of_counts(const Tally& empty_tally);
  // Whether the life before, whose memory this is, was leaving.
  static bool was_leaving(const UniqueFd& memory);

 private:
  static std::size_t slot_of(Line line) { return static_cast<std::size_t>(line); }
  // A batch's counts never overwrite those before it, nor the last ones of the pass before.
  static constexpr std::size_t kSlots = 3;
  static constexpr std::size_t kIndexBytes = 2U << 20U;  // of some 5 GB of text

  struct Slot {
    BatchNumber at;
    std::uint64_t samples = 0;
    double cost = 0;
    double first_cost = 0;
    std::uint64_t tally_bytes = 0;
  };
  struct Header {
    std::uint64_t magic = 0;
    std::uint64_t job = 0;
    std::uint64_t generations = 0;
    std::uint64_t is_leaving = 0;
    std::uint64_t passes_told = 0;
    BatchNumber told[2];  // by Line: the last one
    std::uint64_t is_whole = 0;
    BatchNumber push;
    std::uint64_t samples = 0;
    double cost = 0;
    std::uint64_t rows_bytes = 0;
    std::uint64_t newest = 0;  // of the slots
    Slot slots[kSlots];
  };

  explicit KeptPush(Options options) : options_(std::move(options)) {}
  Status map(std::span<client::DenseParameter> dense);
  Status try_keep(BatchNumber number, const Score& batch, const PassCounts* counts,
                  std::span<const client::SparseRows> rows);
  Status keep_counts(BatchNumber number, const PassCounts& counts);
  std::optional<std::size_t> last_slot(std::uint64_t pass) const;
  void give_up(const Error& why);
  std::optional<PassCounts> read_slot(std::size_t index) const;
  Status write(ByteSpan bytes, std::uint64_t offset) const;
  Status write_header();
  void note_header();
  Status write_rows(std::span<const client::SparseRows> rows);
  static std::uint64_t slot_offset(std::size_t slot, const Tally& tally);
  std::uint64_t slot_offset(std::size_t slot) const {
    return slot_offset(slot, options_.empty_tally);
  }
  std::uint64_t rows_offset() const;

  Options options_;
  Header header_;
  std::span<client::DenseParameter> dense_;  // with places in the memory
  std::byte* mapped_ = nullptr;              // the index, then dense gradients
  std::size_t mapped_bytes_ = kIndexBytes;
  bool is_given_up_ = false;
};

}  // namespace paddle::trainer
