#include "engine/group/group_savepoints.h"

#include <algorithm>

#include "base/log.h"
#include "base/rng.h"

namespace paddle::strategy {
namespace {

constexpr std::uint64_t kMagic = 0x31747563'72677070;
constexpr std::uint64_t kPageBytes = 4096;

std::uint64_t pages(std::uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

// A slot is a page for its mark, then the head, then the floats.
std::uint64_t GroupSavepoints::offset_of(std::size_t slot) const {
  const std::uint64_t bytes =
      kPageBytes + pages(shape_.head_bytes_max) + pages(shape_.part_floats * sizeof(float));
  return options_.offset + slot * bytes;
}

GroupSavepoints::Slot GroupSavepoints::read_slot(std::size_t slot) const {
  Slot read;
  const bool is_there =
      read_at(options_.memory.get(), std::as_writable_bytes(std::span(&read, 1)), offset_of(slot));
  const bool is_ours = is_there && read.magic == kMagic && read.job == shape_.job &&
                       read.head_bytes <= shape_.head_bytes_max;
  return is_ours ? read : Slot();
}

GroupSavepoints::Marks GroupSavepoints::marks() const {
  return {read_slot(0).mark, read_slot(1).mark};
}

GroupSavepoints::Mark GroupSavepoints::newest_of_all(std::span<const Marks> ranks) {
  Mark newest;
  for (const Mark& mark : ranks.front()) {
    const auto has_it = [&](const Marks& marks) { return std::ranges::count(marks, mark) > 0; };
    if (mark.number > newest.number && std::ranges::all_of(ranks, has_it)) newest = mark;
  }
  return newest;
}

std::optional<std::size_t> GroupSavepoints::find(const Mark& mark) const {
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    if (mark.number > 0 && read_slot(slot).mark == mark) return slot;
  }
  return std::nullopt;
}

Status GroupSavepoints::write(ByteSpan bytes, std::uint64_t offset) const {
  if (write_at(options_.memory.get(), bytes, offset)) return {};
  return system_error(Errc::kResource, "write to the memory for savepoints");
}

Status GroupSavepoints::forget(std::size_t slot) const {
  const Slot none;
  return write(bytes_of(std::span(&none, 1)), offset_of(slot));
}

void GroupSavepoints::keep_only(const Mark& mark) {
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    const Mark here = read_slot(slot).mark;
    if (here.number == 0 || here == mark) continue;
    if (const Status done = forget(slot); !done) log_warning("{}", done.error().message);
  }
}

void GroupSavepoints::keep(std::uint64_t number, const std::string& head, double own,
                           const std::function<Status(const Put&)>& read_part) {
  if (is_given_up_) return;
  const TimePoint begun = clock_now();
  const Status kept = try_keep(number, head, own, read_part);
  kept_at_ = clock_now();
  took_ = kept_at_ - begun;
  if (kept) return;
  is_given_up_ = true;
  log_warning("{}: if a trainer fails, the whole job resumes from its last snapshot",
              kept.error().message);
}

// The slot's mark, which makes the savepoint valid, is written last.
Status GroupSavepoints::try_keep(std::uint64_t number, const std::string& head, double own,
                                 const std::function<Status(const Put&)>& read_part) {
  if (head.size() > shape_.head_bytes_max) {
    return Error{Errc::kResource, "the header of a savepoint is too long"};
  }
  const Marks there = marks();
  const std::size_t slot = there[0].number <= there[1].number ? 0 : 1;
  PADDLE_TRY_STATUS(forget(slot));
  std::uint64_t at = offset_of(slot) + kPageBytes;
  PADDLE_TRY_STATUS(write(as_bytes(head), at));
  at += pages(shape_.head_bytes_max);
  const std::uint64_t end = at + shape_.part_floats * sizeof(float);
  const auto put = [&](std::span<const float> next) {
    PADDLE_CHECK(next.size_bytes() <= end - at);
    Status written = write(bytes_of(next), at);
    at += next.size_bytes();
    return written;
  };
  PADDLE_TRY_STATUS(read_part(put));
  PADDLE_CHECK(at == end);
  const Slot made{kMagic, shape_.job, {number, stable_hash(head)}, head.size(), own};
  return write(bytes_of(std::span(&made, 1)), offset_of(slot));
}

Result<std::string> GroupSavepoints::head(const Mark& mark) const {
  const auto slot = find(mark);
  std::string head(slot ? read_slot(*slot).head_bytes : 0, '\0');
  const bool is_read =
      slot && read_at(options_.memory.get(), std::as_writable_bytes(std::span(head)),
                      offset_of(*slot) + kPageBytes);
  if (is_read && stable_hash(head) == mark.hash) return head;
  return Error{Errc::kData, "the header of a savepoint cannot be read"};
}

double GroupSavepoints::own(const Mark& mark) const {
  const auto slot = find(mark);
  return slot ? read_slot(*slot).own : 0;
}

Status GroupSavepoints::restore(const Mark& mark,
                                const std::function<Status(const Take&)>& use) const {
  const auto slot = find(mark);
  if (!slot) return Error{Errc::kData, "a savepoint no longer exists"};
  std::uint64_t at = offset_of(*slot) + kPageBytes + pages(shape_.head_bytes_max);
  const std::uint64_t end = at + shape_.part_floats * sizeof(float);
  return use([&](std::span<float> next) -> Status {
    PADDLE_CHECK(next.size_bytes() <= end - at);
    if (!read_at(options_.memory.get(), std::as_writable_bytes(next), at)) {
      return Error{Errc::kData, "a savepoint cannot be read"};
    }
    at += next.size_bytes();
    return {};
  });
}

bool GroupSavepoints::is_due(TimePoint now, std::uint64_t batch) const {
  if (is_given_up_) return false;
  const Duration since = now - kept_at_;
  const Duration period = std::max(options_.period, options_.share * took_);
  return since >= period && (batch % options_.batches == 0 || since >= 2 * period);
}

}  // namespace paddle::strategy
