// Memory of a trainer that outlives its process: its last push in a round, and its counts of the
// pass. The trainer's next process sends the push again, with the same bits, to the ports that lack
// it.
//
// The memory is a file without a name that the supervisor keeps open for all processes of the
// trainer. A mark in the file, written last, says that a push is whole. Dense gradients are
// computed in place.
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

// Counts of a trainer in a pass, up to and including a batch.
struct PassCounts {
  Score score;
  double first_cost = 0;  // of the first batch of the job
};

// A call for which the other trainers wait, at a position of this one.
struct BarrierMark {
  enum class What : std::uint64_t { kNone, kFinish, kSave };
  What what = What::kNone;  // kNone: the call has returned
  BatchNumber at;
  std::uint64_t pauses = 0;  // of the pass, before the call
};

class ReplayLog {
 public:
  struct Options {
    UniqueFd memory;
    std::uint64_t job = 0;  // hash of what all processes of the trainer must agree on
    // Hash of all pservers' generations. A rollback changes it, and the push is dropped.
    std::uint64_t generations = 0;
    Tally empty_tally;         // of the network
    bool keeps_dense = false;  // dense gradients are pushed in rounds
    bool keeps_rows = false;   // rows are pushed in rounds
  };
  // Places the parameters' gradients in the memory. kResource.
  static Result<std::unique_ptr<ReplayLog>> open(Options options,
                                                 std::span<client::DenseParameter> dense);
  ~ReplayLog();
  ReplayLog(const ReplayLog&) = delete;
  ReplayLog& operator=(const ReplayLog&) = delete;

  // The newest counts of a pass, with the number of batches in them. Kept for the last trained pass
  // and the pass before it.
  std::optional<std::pair<std::uint64_t, PassCounts>> last_counts(std::uint64_t pass) const;
  // The batch whose push is whole, if there is one. Its dense gradients are in their places.
  std::optional<BatchNumber> push() const {
    return header_.is_whole != 0 ? std::optional(header_.push) : std::nullopt;
  }
  Result<std::vector<client::SparseRows>> rows() const;
  std::uint64_t samples() const { return header_.samples; }
  double cost() const { return header_.cost; }

  // For data::open_pass(): the places of the chunks of records that it has read.
  std::span<std::byte> pass_index() const { return {mapped_, kIndexBytes}; }

  // The functions below log the first failed write to the memory; nothing is kept after it.

  // Before gradients are computed: they overwrite the places of the last push.
  void forget_push();
  // Before the batch is pushed. `counts` is null if an earlier process has counted the batch.
  void keep(BatchNumber number, const Score& batch, const PassCounts* counts,
            std::span<const client::SparseRows> rows);
  enum class Line : std::uint32_t { kBatch, kTest };
  // Before a line is written to the log and the metrics: whether no process of the trainer has
  // written it, or a later one. Marks it as written. Without `kept`: always true.
  static bool claim_line(ReplayLog* kept, Line line, BatchNumber at);
  bool is_written(Line line, BatchNumber at) const { return at <= header_.written[slot_of(line)]; }
  // After the log and the metrics have the totals of a pass.
  void mark_pass_written(std::uint64_t pass);
  bool is_pass_written(std::uint64_t pass) const { return pass < header_.passes_written; }
  // Before a call at which trainers meet, and after it: for a program of the user's own, which
  // repeats the call in its next process.
  void mark_barrier(const BarrierMark& mark);
  const BarrierMark& last_barrier() const { return header_.barrier; }
  // Before the trainer leaves a job that is over.
  void begin_leave();
  // Records whether the trainer is leaving; used when pushes are not kept.
  static void note_leaving(const UniqueFd& memory, bool is_leaving);
  // When the first process with this memory called this, by the clock that all processes share
  // since the machine's boot; `now` without memory.
  static TimePoint first_begin(const UniqueFd& memory, TimePoint now);
  // In a memory that keeps no push, only counts: the offset at which other data may begin.
  static std::uint64_t end_of_counts(const Tally& empty_tally);
  // Whether the previous process with this memory was leaving.
  static bool was_leaving(const UniqueFd& memory);

 private:
  static std::size_t slot_of(Line line) { return static_cast<std::size_t>(line); }
  // Three slots: a batch's counts overwrite neither the newest ones nor the last ones of the pass
  // before.
  static constexpr std::size_t kSlots = 3;
  static constexpr std::size_t kIndexBytes = 2U << 20U;  // enough for some 5 GB of text

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
    std::uint64_t passes_written = 0;
    BatchNumber written[2];  // by Line: the last batch with such a line
    std::uint64_t is_whole = 0;
    BatchNumber push;
    std::uint64_t samples = 0;
    double cost = 0;
    std::uint64_t rows_bytes = 0;
    std::uint64_t newest = 0;  // index of a slot
    BarrierMark barrier;
    Slot slots[kSlots];
  };

  explicit ReplayLog(Options options) : options_(std::move(options)) {}
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
  std::span<client::DenseParameter> dense_;  // with gradients placed in the memory
  std::byte* mapped_ = nullptr;              // the index, then dense gradients
  std::size_t mapped_bytes_ = kIndexBytes;
  bool is_given_up_ = false;
};

}  // namespace paddle::trainer
