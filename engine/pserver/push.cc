#include "engine/pserver/push.h"

#include <fmt/format.h>

namespace paddle::pserver {
namespace {

template <class T>
std::span<const T> view(ByteSpan bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

Error malformed(std::string what) {
  return Error{Errc::kData, std::move(what)};
}

}  // namespace

Result<std::vector<RowSegment>> read_segments(
    const google::protobuf::RepeatedPtrField<wire::Segment>& segments, ByteSpan tail,
    RowWidths widths, bool has_floats) {
  std::vector<RowSegment> rows;
  rows.reserve(static_cast<std::size_t>(segments.size()));
  std::uint64_t left = tail.size();
  std::uint64_t ids_bytes = 0;
  for (const wire::Segment& segment : segments) {
    const std::uint32_t parameter = segment.parameter();
    if (parameter >= widths.size() || widths[parameter] == 0) {
      return malformed(fmt::format("parameter {} is not a sparse table of this shard", parameter));
    }
    if (!rows.empty() && parameter <= rows.back().parameter) {
      return malformed("tables of a request must be in ascending order");
    }
    const std::uint64_t row_bytes =
        sizeof(std::uint64_t) + (has_floats ? widths[parameter] * sizeof(float) : 0);
    if (segment.count() > left / row_bytes) {
      return malformed(fmt::format("{} rows of parameter {} do not fit into {} bytes",
                                   segment.count(), parameter, left));
    }
    left -= segment.count() * row_bytes;
    const auto ids =
        view<std::uint64_t>(tail.subspan(ids_bytes, segment.count() * sizeof(std::uint64_t)));
    for (std::size_t i = 1; i < ids.size(); ++i) {
      if (ids[i] <= ids[i - 1]) {
        return malformed(fmt::format("ids of parameter {} are not in ascending order", parameter));
      }
    }
    ids_bytes += ids.size_bytes();
    rows.push_back({parameter, widths[parameter], ids, {}});
  }
  if (left != 0) return malformed(fmt::format("a request for rows has {} extra bytes", left));
  if (!has_floats) return rows;
  std::uint64_t at = ids_bytes;
  for (RowSegment& row : rows) {
    const std::uint64_t bytes = row.ids.size() * row.width * sizeof(float);
    row.floats = view<float>(tail.subspan(at, bytes));
    at += bytes;
  }
  return rows;
}

Status Push::add_dense(std::uint64_t offset, std::uint64_t count, std::uint64_t size,
                       Bytes&& tail) {
  const bool is_last = parts_taken + 1 == parts;
  if (offset != dense_count_ || count > size - dense_count_ ||
      tail.size() / sizeof(float) != count || tail.size() % sizeof(float) != 0 ||
      (is_last && dense_count_ + count != size)) {
    return malformed(fmt::format(
        "part {} of a push has elements [{}, +{}) in {} bytes; expected from {}, this shard has {}",
        parts_taken, offset, count, tail.size(), dense_count_, size));
  }
  dense_count_ += count;
  tails_.push_back(std::move(tail));
  ++parts_taken;
  return {};
}

void Push::lend_dense(std::uint64_t size, GradientParts gradient) {
  PADDLE_CHECK(parts == 1 && parts_taken == 0);
  lent_ = std::move(gradient);
  dense_count_ = size;
  ++parts_taken;
}

void Push::take_without_dense() {
  PADDLE_CHECK(parts == 1 && parts_taken == 0 && weight() == 0);
  is_without_dense_ = true;
  ++parts_taken;
}

Status Push::add_rows(const wire::PushRows& head, RowWidths widths, Bytes&& tail) {
  PADDLE_TRY(auto added, read_segments(head.segments(), tail, widths, true));
  if (!segments_.empty() && !added.empty()) {
    const RowSegment& last = segments_.back();
    const RowSegment& next = added.front();
    const bool goes_on = last.parameter == next.parameter && !last.ids.empty() &&
                         !next.ids.empty() && last.ids.back() < next.ids.front();
    if (next.parameter < last.parameter || (next.parameter == last.parameter && !goes_on)) {
      return malformed("ids of a push in parts are not in ascending order");
    }
  }
  segments_.insert(segments_.end(), added.begin(), added.end());
  tails_.push_back(std::move(tail));  // moving keeps the bytes where the spans point
  ++parts_taken;
  return {};
}

std::span<const float> Push::dense(std::vector<float>& scratch) const {
  PADDLE_CHECK(complete());
  if (lent_.empty() && tails_.size() == 1) return view<float>(tails_.front());
  scratch.clear();
  for (const auto part : lent_) scratch.insert(scratch.end(), part.begin(), part.end());
  for (const Bytes& tail : tails_) {
    const auto part = view<float>(tail);
    scratch.insert(scratch.end(), part.begin(), part.end());
  }
  return scratch;
}

}  // namespace paddle::pserver
