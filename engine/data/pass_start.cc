#include "engine/data/pass_start.h"

#include <algorithm>
#include <span>

namespace paddle::data {

std::optional<PassStart> find_start(const DatasetOptions& options, std::uint64_t skip,
                                    const PassIndex& index, Shuffler& shuffler) {
  const std::vector<IndexedChunk> indexed = index.chunks();
  if (skip == 0 || indexed.empty()) return {};
  PassStart start;
  // The window fills up before the first record leaves it.
  const std::uint64_t leaving = skip;
  const std::uint64_t window = options.shuffle_records > 1 ? options.shuffle_records : 0;
  start.seen = std::min(leaving + window, indexed.back().end_record);
  start.dropped = leaving - (start.seen - std::min(start.seen, window));
  const auto next = std::ranges::lower_bound(indexed, start.seen, {}, &IndexedChunk::first_record);
  if (next == indexed.begin()) return {};
  const auto before = std::span(indexed).first(static_cast<std::size_t>(next - indexed.begin()));
  start.next_chunk = index.first() + before.size();
  start.are_all = index.first() == 0;
  // Each sequence that is not over has one of the last files_at_once chunks.
  if (!start.are_all && before.size() < options.data.files_at_once) return {};

  Shuffler moved = shuffler;
  start.held = moved.go_to(start.seen);
  if (!start.held.empty() && start.held.front() < indexed.front().first_record) return {};
  auto held = start.held.begin();
  for (const IndexedChunk& chunk : before) {
    const auto end = std::lower_bound(held, start.held.end(), chunk.end_record);
    start.chunks.push_back({chunk, end != held || chunk.end_record > start.seen});
    held = end;
  }
  shuffler = std::move(moved);
  return start;
}

}  // namespace paddle::data
