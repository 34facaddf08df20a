#include "engine/client/sparse_channel.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"
#include "engine/table/partition.h"
#include "engine/table/row_notes.h"

namespace paddle::client {
namespace {

// A shard reads the rows of one pull while the values of the previous pull are received.
constexpr std::size_t kPullsInFlight = 3;
constexpr std::uint64_t kPullBytesMax = 1U << 20U;  // ids and values of one pull

Error sparse_misuse(std::string message) {
  return Error{Errc::kUsage, std::move(message)};
}

}  // namespace

bool stays_in_place(const RowFrame& frame) {
  constexpr std::size_t kPiecesMax = 64;
  std::size_t pieces = 0;
  for (const RowRange& range : frame.ranges) pieces += range.runs.size();
  return pieces <= kPiecesMax;
}

std::vector<std::vector<RowFrame>> split_rows(std::span<const SparseRows> tables,
                                              const wire::ParameterSet& set,
                                              std::uint64_t bytes_max) {
  const std::uint32_t shards = set.sparse_shards();
  std::vector<std::vector<RowFrame>> frames(shards);
  std::vector<std::uint64_t> bytes(shards, 0);
  for (auto& of_shard : frames) of_shard.emplace_back();
  for (std::uint32_t t = 0; t < tables.size(); ++t) {
    const auto& spec = set.parameters(static_cast<int>(tables[t].parameter));
    const std::uint64_t row_bytes =
        sizeof(std::uint64_t) +
        (parameter::row_width(spec) + parameter::RowNotes(spec.table()).size()) * sizeof(float);
    const auto add = [&](std::uint32_t shard, std::size_t i, std::size_t count) {
      auto& ranges = frames[shard].back().ranges;
      if (ranges.empty() || ranges.back().table != t) ranges.push_back({t, 0, {}});
      auto& runs = ranges.back().runs;
      if (runs.empty() || runs.back().begin + runs.back().count != i) runs.push_back({i, 0});
      runs.back().count += count;
      ranges.back().count += count;
      bytes[shard] += count * row_bytes;
    };
    const std::size_t ids = tables[t].ids.size();
    for (std::size_t i = 0; i < ids;) {
      const std::uint32_t shard =
          shards == 1 ? 0 : parameter::sparse_shard(tables[t].ids[i], shards);
      if (bytes[shard] > 0 && bytes[shard] + row_bytes > bytes_max) {
        frames[shard].emplace_back();
        bytes[shard] = 0;
      }
      const std::uint64_t left = bytes_max - std::min(bytes_max, bytes[shard]);
      // With one shard, add as many rows as fit.
      const std::size_t count =
          shards > 1 ? 1 : std::clamp<std::uint64_t>(left / row_bytes, 1, ids - i);
      add(shard, i, count);
      i += count;
    }
  }
  return frames;
}

std::uint64_t SparseChannel::width(std::uint32_t parameter) const {
  return parameter::row_width(set_.parameters(static_cast<int>(parameter)));
}

std::size_t SparseChannel::notes_width(std::uint32_t parameter) const {
  return parameter::RowNotes(set_.parameters(static_cast<int>(parameter)).table()).size();
}

Status SparseChannel::check(std::span<const SparseRows> rows, bool has_gradients) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SparseRows& table = rows[i];
    if (table.parameter >= static_cast<std::uint32_t>(set_.parameters_size()) ||
        !set_.parameters(static_cast<int>(table.parameter)).sparse()) {
      return sparse_misuse(fmt::format("parameter {} is not a sparse table", table.parameter));
    }
    if (i > 0 && table.parameter <= rows[i - 1].parameter) {
      return sparse_misuse("sparse tables must be in ascending order of parameter");
    }
    const bool ascends = std::adjacent_find(table.ids.begin(), table.ids.end(),
                                            std::greater_equal<>()) == table.ids.end();
    if (!ascends || (has_gradients &&
                     (table.gradients.size() != table.ids.size() * width(table.parameter) ||
                      table.notes.size() != table.ids.size() * notes_width(table.parameter)))) {
      return sparse_misuse(
          fmt::format("ids of table {} are not sorted and unique, or its gradients do not have ids "
                      "x width values, or its notes are missing",
                      table.parameter));
    }
  }
  return {};
}

Status SparseChannel::pull(std::span<SparseRows> rows, Reads reads) {
  PADDLE_TRY_STATUS(check(rows, false));
  for (SparseRows& table : rows) table.make_values(width(table.parameter));
  auto frames = split_rows(rows, set_, std::min(transfer_bytes_, kPullBytesMax));
  std::size_t rounds = 0;
  for (const auto& of_shard : frames) rounds = std::max(rounds, of_shard.size());
  const auto on_shards = [&](std::size_t round, auto&& use) -> Status {
    for (std::size_t shard = 0; shard < frames.size(); ++shard) {
      if (round >= frames[shard].size() || frames[shard][round].ranges.empty()) continue;
      PADDLE_TRY_STATUS(use(shard, frames[shard][round]));
    }
    return {};
  };
  const auto send = [&](std::size_t shard, RowFrame& frame) {
    return send_pull(shard, frame, rows, reads);
  };
  const auto receive = [&](std::size_t shard, const RowFrame& frame) {
    return receive_pull(shard, frame, rows);
  };
  for (std::size_t sent = 0, round = 0; round < rounds; ++round) {
    for (; sent < std::min(rounds, round + kPullsInFlight); ++sent) {
      PADDLE_TRY_STATUS(on_shards(sent, send));
    }
    PADDLE_TRY_STATUS(on_shards(round, receive));
  }
  return {};
}

std::vector<std::span<float>> SparseChannel::places(const RowFrame& frame,
                                                    std::span<SparseRows> rows) const {
  std::vector<std::span<float>> places;
  for (const RowRange& range : frame.ranges) {
    const std::size_t floats = width(rows[range.table].parameter);
    const std::span<float> values = rows[range.table].make_values(floats);
    for (const RowRun& run : range.runs) {
      places.push_back(values.subspan(run.begin * floats, run.count * floats));
    }
  }
  return places;
}

Status SparseChannel::send_pull(std::size_t shard, RowFrame& frame, std::span<SparseRows> rows,
                                Reads reads) {
  wire::PullRows pull;
  Bytes tail;
  pull.set_to_test(reads == Reads::kToTest);
  pull.set_averages(reads == Reads::kToTest && optim::has_average(set_.optimizer()));
  put_ids(pull, tail, frame, rows);
  const bool lends = !loans_.empty() && std::ranges::all_of(frame.ranges, [](const auto& range) {
    return range.runs.size() == 1;
  });
  if (lends) loans_[shard]->values = places(frame, rows);
  Status sent = lanes_.send(shard, FrameType::kPullRows, pull, std::move(tail));
  frame.has_values = lends && std::exchange(loans_[shard]->values, {}).empty();
  return sent;
}

Status SparseChannel::receive_pull(std::size_t shard, const RowFrame& frame,
                                   std::span<SparseRows> rows) {
  std::vector<std::span<std::byte>> places;
  std::size_t expected = 0;
  if (!frame.has_values) {
    for (const std::span<float> floats : this->places(frame, rows)) {
      places.push_back(std::as_writable_bytes(floats));
      expected += floats.size_bytes();
    }
  }
  bool is_placed = false;
  const auto place = [&](std::size_t tail_bytes) {
    is_placed = tail_bytes == expected && stays_in_place(frame);
    return is_placed ? places : std::vector<std::span<std::byte>>();
  };
  PADDLE_TRY(const Frame answer, lanes_.receive(shard, FrameType::kRowValues, place));
  if (is_placed) return {};
  if (answer.tail.size() != expected) return lanes_.malformed(shard, "tail");
  ByteSpan left = answer.tail;
  for (const std::span<std::byte> to : places) {
    std::copy_n(left.data(), to.size(), to.data());
    left = left.subspan(to.size());
  }
  return {};
}

Result<SparseChannel::Push> SparseChannel::prepare(const wire::PushPart& totals,
                                                   std::span<const SparseRows> rows) {
  PADDLE_TRY_STATUS(check(rows, true));
  Push push(lanes_, totals);
  for (const std::vector<RowFrame>& frames : split_rows(rows, set_, transfer_bytes_)) {
    push.add_shard(frames.size(), [&](std::size_t i, auto& part) { fill(part, frames[i], rows); });
  }
  return push;
}

void SparseChannel::fill(PartedPush<wire::PushRows>::Part& part, const RowFrame& frame,
                         std::span<const SparseRows> tables) const {
  // Rows with notes cannot be sent from their memory: the notes stand between the gradients.
  const bool in_place =
      stays_in_place(frame) && std::ranges::all_of(frame.ranges, [&](const RowRange& range) {
        return notes_width(tables[range.table].parameter) == 0;
      });
  std::uint64_t bytes = 0;
  for (const RowRange& range : frame.ranges) {
    const std::uint32_t parameter = tables[range.table].parameter;
    const std::uint64_t floats = in_place ? 0 : width(parameter) + notes_width(parameter);
    bytes += range.count * (sizeof(std::uint64_t) + floats * sizeof(float));
  }
  part.tail.reserve(bytes);
  put_ids(part.head, part.tail, frame, tables);
  for (const RowRange& range : frame.ranges) {
    const SparseRows& table = tables[range.table];
    const std::size_t floats_per_row = width(table.parameter);
    const std::size_t notes_per_row = notes_width(table.parameter);
    for (const RowRun& run : range.runs) {
      const auto gradients = std::span(table.gradients)
                                 .subspan(run.begin * floats_per_row, run.count * floats_per_row);
      if (in_place) {
        part.pieces.push_back(bytes_of(gradients));
      } else if (notes_per_row == 0) {
        append_bytes(part.tail, gradients);
      }
      for (std::size_t row = 0; notes_per_row > 0 && row < run.count; ++row) {
        append_bytes(part.tail, gradients.subspan(row * floats_per_row, floats_per_row));
        append_bytes(
            part.tail,
            std::span(table.notes).subspan((run.begin + row) * notes_per_row, notes_per_row));
      }
    }
  }
}

Status SparseChannel::Push::receive() {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    if (is_sent_to(shard)) PADDLE_TRY_STATUS(lanes_.receive(shard, FrameType::kPushed));
  }
  lanes_.on_push(batches_);
  return {};
}

}  // namespace paddle::client
