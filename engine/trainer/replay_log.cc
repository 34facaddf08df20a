#include "engine/trainer/replay_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace paddle::trainer {
namespace {

constexpr std::uint64_t kMagic = 0x31707565'74706b70;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kLineBytes = 64;  // each gradient begins on a cache line

std::size_t rounded(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

struct RowsHead {
  std::uint64_t parameter = 0;
  std::uint64_t ids = 0;
  std::uint64_t gradients = 0;
  std::uint64_t notes = 0;
};

template <class T>
bool take(ByteSpan& from, std::uint64_t count, std::vector<T>& to) {
  if (count > from.size() / sizeof(T)) return false;
  to.resize(count);
  if (count > 0) std::memcpy(to.data(), from.data(), count * sizeof(T));
  from = from.subspan(count * sizeof(T));
  return true;
}

}  // namespace

Result<std::unique_ptr<ReplayLog>> ReplayLog::open(Options options,
                                                   std::span<client::DenseParameter> dense) {
  std::unique_ptr<ReplayLog> kept(new ReplayLog(std::move(options)));
  PADDLE_TRY_STATUS(kept->map(dense));
  Header& header = kept->header_;
  const bool is_ours =
      read_at(kept->options_.memory.get(), std::as_writable_bytes(std::span(&header, 1)), 0) &&
      header.magic == kMagic && header.job == kept->options_.job && header.newest < kSlots;
  if (!is_ours) header = Header();
  if (header.generations != kept->options_.generations) header.is_whole = 0;
  header.magic = kMagic;
  header.job = kept->options_.job;
  header.generations = kept->options_.generations;
  header.is_leaving = 0;
  PADDLE_TRY_STATUS(kept->write_header());
  return kept;
}

ReplayLog::~ReplayLog() {
  for (client::DenseParameter& one : dense_) one.placed_gradient = {};
  if (mapped_ != nullptr) ::munmap(mapped_, mapped_bytes_);
}

std::uint64_t ReplayLog::slot_offset(std::size_t slot, const Tally& tally) {
  return kPageBytes + slot * rounded(tally.bytes_max(), kPageBytes);
}

std::uint64_t ReplayLog::end_of_counts(const Tally& empty_tally) {
  return slot_offset(kSlots, empty_tally) + kIndexBytes;
}

std::uint64_t ReplayLog::rows_offset() const {
  return slot_offset(kSlots) + mapped_bytes_;
}

Status ReplayLog::map(std::span<client::DenseParameter> dense) {
  if (options_.keeps_dense) {
    for (const client::DenseParameter& one : dense) {
      mapped_bytes_ += rounded(one.gradient.size() * sizeof(float), kLineBytes);
    }
  }
  mapped_bytes_ = rounded(mapped_bytes_, kPageBytes);
  const int memory = options_.memory.get();
  // Rows are stored behind the mapped part, and the file grows with them.
  const off_t end = ::lseek(memory, 0, SEEK_END);
  if (end < 0 || (static_cast<std::uint64_t>(end) < rows_offset() &&
                  ::ftruncate(memory, static_cast<off_t>(rows_offset())) != 0)) {
    return system_error(Errc::kResource, "memory for the last push");
  }
  void* const mapped = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory,
                              static_cast<off_t>(slot_offset(kSlots)));
  if (mapped == MAP_FAILED) return system_error(Errc::kResource, "map memory for the last push");
  mapped_ = static_cast<std::byte*>(mapped);
  if (!options_.keeps_dense) return {};
  std::size_t at = kIndexBytes;
  dense_ = dense;
  for (client::DenseParameter& one : dense) {
    one.placed_gradient = {reinterpret_cast<float*>(mapped_ + at), one.gradient.size()};
    at += rounded(one.gradient.size() * sizeof(float), kLineBytes);
  }
  return {};
}

std::optional<PassCounts> ReplayLog::read_slot(std::size_t index) const {
  const Slot& slot = header_.slots[index];
  const Tally& empty = options_.empty_tally;
  if (slot.tally_bytes > empty.bytes_max()) return {};
  Bytes bytes(slot.tally_bytes);
  if (!read_at(options_.memory.get(), std::span(bytes), slot_offset(index))) return {};
  auto tally = decode_tally(bytes, empty.counts.size(), empty.sums.size(), empty.histograms.size(),
                            empty.grouped.size());
  if (!tally) return {};
  return PassCounts{{slot.samples, slot.cost, *std::move(tally)}, slot.first_cost};
}

std::optional<std::size_t> ReplayLog::last_slot(std::uint64_t pass) const {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < kSlots; ++i) {
    const BatchNumber at = header_.slots[i].at;
    if (at.batch == 0 || at.pass != pass) continue;
    if (!last || at.batch > header_.slots[*last].at.batch) last = i;
  }
  return last;
}

std::optional<std::pair<std::uint64_t, PassCounts>> ReplayLog::last_counts(
    std::uint64_t pass) const {
  const auto slot = last_slot(pass);
  if (!slot) return {};
  const auto counts = read_slot(*slot);
  if (!counts) return {};
  return std::pair(header_.slots[*slot].at.batch, *counts);
}

Result<std::vector<client::SparseRows>> ReplayLog::rows() const {
  const off_t end = ::lseek(options_.memory.get(), 0, SEEK_END);
  if (end < 0 || header_.rows_bytes > static_cast<std::uint64_t>(end)) {
    return Error{Errc::kData, "the rows of the last push are malformed"};
  }
  Bytes bytes(header_.rows_bytes);
  if (!read_at(options_.memory.get(), bytes, rows_offset())) {
    return system_error(Errc::kData, "read the rows of the last push");
  }
  std::vector<client::SparseRows> tables;
  for (ByteSpan left = bytes; !left.empty();) {
    std::vector<RowsHead> head;
    client::SparseRows& table = tables.emplace_back();
    if (!take(left, 1, head) || !take(left, head[0].ids, table.ids) ||
        !take(left, head[0].gradients, table.gradients) || !take(left, head[0].notes, table.notes))
      return Error{Errc::kData, "the rows of the last push are malformed"};
    table.parameter = static_cast<std::uint32_t>(head[0].parameter);
  }
  return tables;
}

Status ReplayLog::write(ByteSpan bytes, std::uint64_t offset) const {
  if (write_at(options_.memory.get(), bytes, offset)) return {};
  return system_error(Errc::kResource, "write to the memory for the last push");
}

Status ReplayLog::write_header() {
  return write(bytes_of(std::span<const Header>(&header_, 1)), 0);
}

void ReplayLog::give_up(const Error& why) {
  if (std::exchange(is_given_up_, true)) return;
  log_warning("{}: if this trainer fails, the whole job resumes from its last snapshot",
              why.message);
}

void ReplayLog::forget_push() {
  if (header_.is_whole == 0) return;
  header_.is_whole = 0;
  if (const Status written = write_header(); !written) give_up(written.error());
}

void ReplayLog::mark_pass_written(std::uint64_t pass) {
  header_.passes_written = pass + 1;
  note_header();
}

void ReplayLog::mark_barrier(const BarrierMark& mark) {
  header_.barrier = mark;
  note_header();
}

bool ReplayLog::claim_line(ReplayLog* kept, Line line, BatchNumber at) {
  if (kept == nullptr) return true;
  if (kept->is_written(line, at)) return false;
  kept->header_.written[slot_of(line)] = at;
  kept->note_header();
  return true;
}

void ReplayLog::note_header() {
  if (is_given_up_) return;
  if (const Status written = write_header(); !written) give_up(written.error());
}

void ReplayLog::begin_leave() {
  header_.is_leaving = 1;
  if (const Status written = write_header(); !written) give_up(written.error());
}

void ReplayLog::note_leaving(const UniqueFd& memory, bool is_leaving) {
  Header header;
  header.magic = kMagic;
  header.is_leaving = is_leaving ? 1 : 0;
  if (!memory || write_at(memory.get(), bytes_of(std::span<const Header>(&header, 1)), 0)) return;
  log_warning("{}", system_error(Errc::kResource, "write to the memory of this trainer").message);
}

bool ReplayLog::was_leaving(const UniqueFd& memory) {
  Header header;
  return memory && read_at(memory.get(), std::as_writable_bytes(std::span(&header, 1)), 0) &&
         header.magic == kMagic && header.is_leaving != 0;
}

TimePoint ReplayLog::first_begin(const UniqueFd& memory, TimePoint now) {
  constexpr std::uint64_t kOffset = kPageBytes - sizeof(std::uint64_t);
  static_assert(sizeof(Header) <= kOffset);
  if (!memory) return now;
  std::int64_t begun = 0;
  const bool is_read = read_at(memory.get(), std::as_writable_bytes(std::span(&begun, 1)), kOffset);
  if (is_read && begun > 0) return TimePoint(Duration(begun));
  begun = now.time_since_epoch().count();
  if (!write_at(memory.get(), bytes_of(std::span<const std::int64_t>(&begun, 1)), kOffset)) {
    log_warning("{}", system_error(Errc::kResource, "write to the memory of this trainer").message);
  }
  return now;
}

Status ReplayLog::write_rows(std::span<const client::SparseRows> rows) {
  header_.rows_bytes = 0;
  const auto append = [&](ByteSpan bytes) {
    const std::uint64_t at = rows_offset() + header_.rows_bytes;
    header_.rows_bytes += bytes.size();
    return write(bytes, at);
  };
  for (const client::SparseRows& table : rows) {
    const RowsHead head{table.parameter, table.ids.size(), table.gradients.size(),
                        table.notes.size()};
    PADDLE_TRY_STATUS(append(bytes_of(std::span(&head, 1))));
    PADDLE_TRY_STATUS(append(bytes_of(std::span(table.ids))));
    PADDLE_TRY_STATUS(append(bytes_of(std::span(table.gradients))));
    PADDLE_TRY_STATUS(append(bytes_of(std::span(table.notes))));
  }
  return {};
}

void ReplayLog::keep(BatchNumber number, const Score& batch, const PassCounts* counts,
                     std::span<const client::SparseRows> rows) {
  if (is_given_up_) return;
  if (const Status kept = try_keep(number, batch, counts, rows); !kept) give_up(kept.error());
}

// INVARIANT: a push under way outlives its process. The header, written last, says that the push is
// whole, so the next process never repeats a part of one.
Status ReplayLog::try_keep(BatchNumber number, const Score& batch, const PassCounts* counts,
                           std::span<const client::SparseRows> rows) {
  if (counts != nullptr) PADDLE_TRY_STATUS(keep_counts(number, *counts));
  if (options_.keeps_rows) PADDLE_TRY_STATUS(write_rows(rows));
  header_.push = number;
  header_.samples = batch.samples;
  header_.cost = batch.cost;
  header_.is_whole = options_.keeps_dense || options_.keeps_rows ? 1 : 0;
  return write_header();
}

// The counts are valid once try_keep() has written the header.
Status ReplayLog::keep_counts(BatchNumber number, const PassCounts& counts) {
  const auto before = number.pass > 0 ? last_slot(number.pass - 1) : std::nullopt;
  std::size_t slot = 0;
  while (slot == header_.newest || before == slot) ++slot;
  header_.slots[slot].at = BatchNumber();
  PADDLE_TRY_STATUS(write_header());
  const Tally& tally = counts.score.tally;
  PADDLE_CHECK(tally.same_shape(options_.empty_tally));
  const Bytes bytes = encode(tally);
  PADDLE_TRY_STATUS(write(bytes, slot_offset(slot)));
  header_.slots[slot] = {number, counts.score.samples, counts.score.cost, counts.first_cost,
                         bytes.size()};
  header_.newest = slot;
  return {};
}

}  // namespace paddle::trainer
