// Savepoints of one rank: its part of the parameters at a step, in memory that outlives its
// process. GroupRecovery (group_recovery.h) decides when all ranks keep one, and goes back to one.
//
//     slot 0   mark | head | floats of the part        the older one, which the next one replaces
//     slot 1   mark | head | floats of the part        the newest one
//
// INVARIANT: a slot's mark is written last, so a savepoint with a mark is whole. The two newest are
// kept, since a rank may be lost while it writes the next one.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace paddle::strategy {

class GroupSavepoints {
 public:
  struct Options {
    UniqueFd memory;            // a file without a name, which later processes of the rank get, too
    std::uint64_t offset = 0;   // where the savepoints begin in it
    Duration period{};          // between two savepoints within a pass
    std::uint64_t batches = 1;  // savepoints are made at multiples of it, if that is soon enough
    int share = 100;            // savepoints take at most one of so many parts of the time
  };
  // Must be the same for all processes of the rank.
  struct Shape {
    std::uint64_t job = 0;  // a hash
    std::uint64_t part_floats = 0;
    std::uint64_t head_bytes_max = 0;
  };
  // A whole savepoint. The savepoints of one step have the same number and hash on all ranks.
  struct Mark {
    std::uint64_t number = 0;  // 0: none; rises with every savepoint
    std::uint64_t hash = 0;
    friend bool operator==(const Mark&, const Mark&) = default;
  };
  static constexpr std::size_t kSlots = 2;
  using Marks = std::array<Mark, kSlots>;
  using Put = std::function<Status(std::span<const float> next)>;
  using Take = std::function<Status(std::span<float> next)>;

  GroupSavepoints(Options options, const Shape& shape)
      : options_(std::move(options)), shape_(shape) {}

  Marks marks() const;
  // The newest savepoint that every rank has; number 0: none.
  static Mark newest_of_all(std::span<const Marks> ranks);
  // Writes a savepoint over the older of the two. After an error, which is logged once, no
  // savepoints are made. `own` is data of this rank that is not in the head, which is the same on
  // all ranks.
  void keep(std::uint64_t number, const std::string& head, double own,
            const std::function<Status(const Put&)>& read_part);
  // Deletes all other savepoints.
  void keep_only(const Mark& mark);
  Result<std::string> head(const Mark& mark) const;
  double own(const Mark& mark) const;
  // `use` gets a function that reads the floats in the order in which they were written.
  Status restore(const Mark& mark, const std::function<Status(const Take&)>& use) const;

  // Whether the next savepoint is due, after so many batches of the pass.
  bool is_due(TimePoint now, std::uint64_t batch) const;

 private:
  struct Slot {
    std::uint64_t magic = 0;
    std::uint64_t job = 0;
    Mark mark;
    std::uint64_t head_bytes = 0;
    double own = 0;
  };
  std::uint64_t offset_of(std::size_t slot) const;
  Slot read_slot(std::size_t slot) const;
  std::optional<std::size_t> find(const Mark& mark) const;
  Status write(ByteSpan bytes, std::uint64_t offset) const;
  Status forget(std::size_t slot) const;
  Status try_keep(std::uint64_t number, const std::string& head, double own,
                  const std::function<Status(const Put&)>& read_part);

  Options options_;
  Shape shape_;
  bool is_given_up_ = false;
  TimePoint kept_at_ = SteadyClock().now();
  Duration took_{};
};

}  // namespace paddle::strategy
