#include "engine/snapshot/parameter_file.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "base/pool.h"
#include "engine/optim/update_kernels.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/row_notes.h"

namespace paddle::snapshot {
namespace {

constexpr std::size_t kVerifyThreadsMax = 4;
constexpr std::uint64_t kVerifyAloneBytes = 8U << 20U;  // of fewer bytes no thread is worth it
constexpr std::size_t kRowHeadBytes = 2 * sizeof(std::uint64_t);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A number that is not finite was never training's: pushes that would make one are refused.
template <class File>
Status check_finite(const File& file, std::span<const float> values, std::string_view what) {
  if (optim::all_below(values, kInfinity)) return {};
  const auto bad =
      std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
  return file.error(
      fmt::format("{} {} is {}, and not a finite number", what, bad - values.begin(), *bad));
}

Status check_row(const BlockReader& file, const SparseRow& row) {
  const std::array<float, 2> score{row.score.shows, row.score.clicks};
  if (optim::all_below(row.value, kInfinity) && optim::all_below(row.state, kInfinity) &&
      optim::all_below(score, kInfinity))
    return {};
  const std::string of_row = fmt::format("row {}, ", row.id);
  PADDLE_TRY_STATUS(check_finite(file, row.value, of_row + "value"));
  PADDLE_TRY_STATUS(check_finite(file, row.state, of_row + "state"));
  return check_finite(file, score, of_row + "score");
}

std::uint64_t row_bytes(const BlockHeader& header) {
  return kRowHeadBytes + header.width * (1 + header.state_width) * sizeof(float) +
         (header.has_scores ? sizeof(parameter::RowScore) : 0);
}

// Bytes of a file, without those of its form.
std::uint64_t body_bytes_max(const ManifestParameter& parameter, const BlockHeader& header,
                             const std::string& file) {
  switch (header.kind) {
    case BlockKind::kState:
      return header.width * sizeof(float) *
             (file == parameter.spec.name() ? 1 : header.state_width);
    case BlockKind::kRows:
      return parameter.rows == 0 ? 0 : kRowsFileBytesMax + row_bytes(header);
    case BlockKind::kIds:
      return parameter.removed * sizeof(std::uint64_t);
  }
  return 0;
}

// The header is asked first: it can tell that the file is another's.
Status verify_one(const Directory& root, const std::optional<SnapshotId>& snapshot,
                  const ManifestParameter& parameter, FileEntry& file) {
  std::uint64_t body = file.size - std::min<std::uint64_t>(file.size, kParameterFileHeaderBytes);
  const BlockHeader header = block_header(snapshot, parameter, file.name);
  if (file.name != parameter.spec.name()) {
    PADDLE_TRY(const BlockReader opened, BlockReader::open(root, file, header));
    body = opened.bytes_left();
  }
  // A hole costs nobody a byte, and hours to read.
  if (const std::uint64_t most = body_bytes_max(parameter, header, file.name); body > most) {
    return Error{Errc::kData, fmt::format("{}: expected at most {} bytes of values, found {}",
                                          file.name, most, body)};
  }
  return verify_file(root, file);
}

}  // namespace

Status verify_files(const Directory& root, const std::optional<SnapshotId>& snapshot,
                    std::span<ManifestParameter* const> parameters) {
  struct Part {
    const ManifestParameter* parameter = nullptr;
    FileEntry* file = nullptr;
    Status outcome;
  };
  std::vector<Part> parts;
  std::uint64_t bytes = 0;
  for (ManifestParameter* const parameter : parameters) {
    for (FileEntry& file : parameter->files) {
      parts.push_back({parameter, &file, {}});
      bytes += file.size;
    }
  }
  std::atomic<std::size_t> damaged = parts.size();  // files behind it need no outcome
  const auto verify_part = [&](std::size_t i) {
    if (i > damaged) return;
    Part& part = parts[i];
    part.outcome = verify_one(root, snapshot, *part.parameter, *part.file);
    if (!part.outcome) damaged = i;
  };
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  for_each_parallel(parts.size(), verify_part,
                    bytes < kVerifyAloneBytes ? 1 : std::min(cores, kVerifyThreadsMax));
  for (Part& part : parts) PADDLE_TRY_STATUS(std::move(part.outcome));
  return {};
}

Result<std::vector<float>> read_value(const Directory& root, const FileEntry& entry,
                                      std::uint64_t count) {
  PADDLE_TRY(FileReader file, FileReader::open(root, entry));
  std::array<std::byte, kParameterFileHeaderBytes> header{};
  PADDLE_TRY_STATUS(file.read(header));
  if (auto checked = check_parameter_file_header(header, count); !checked) {
    return file.error(checked.error().message);
  }
  if (file.bytes_left() != count * sizeof(float)) {
    return file.error(fmt::format("expected {} bytes of values, found {}", count * sizeof(float),
                                  file.bytes_left()));
  }
  std::vector<float> values(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(values))));
  PADDLE_TRY_STATUS(file.finish());
  PADDLE_TRY_STATUS(check_finite(file, values, "value"));
  return values;
}

Status read_rows_file(const Directory& root, const FileEntry& entry, const BlockHeader& header,
                      const std::function<Status(SparseRow&)>& on_row, std::uint64_t& rows) {
  const std::uint64_t width = header.width;
  const bool has_scores = header.has_scores;
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry, header));
  if (file.bytes_left() % row_bytes(header) != 0) {
    return file.error(fmt::format("expected whole rows of {} bytes, found {} bytes",
                                  row_bytes(header), file.bytes_left()));
  }
  if (file.bytes_left() == 0) return file.finish();
  SparseRow row;
  row.value.resize(width);
  row.state.resize(width * header.state_width);
  while (file.bytes_left() > 0) {
    std::byte head[kRowHeadBytes];
    PADDLE_TRY_STATUS(file.read(head));
    row.id = load_le<std::uint64_t>(head);
    row.marks = load_le<std::uint64_t>(head + sizeof(std::uint64_t));
    PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(row.value))));
    PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(row.state))));
    if (has_scores) {
      PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(&row.score, 1))));
    }
    PADDLE_TRY_STATUS(check_row(file, row));
    ++rows;
    PADDLE_TRY_STATUS(on_row(row));
  }
  return file.finish();
}

Result<std::vector<float>> read_state(const Directory& root, const FileEntry& entry,
                                      const BlockHeader& header, std::uint64_t& update_count) {
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry, header));
  const std::uint64_t count = header.width * header.state_width;
  if (const std::uint64_t bytes = count * sizeof(float); file.bytes_left() != bytes) {
    return file.error(
        fmt::format("expected {} bytes of state, found {}", bytes, file.bytes_left()));
  }
  if (file.update_count() > parameter::kCounterMax) {
    return file.error(fmt::format("{} updates are more than can be", file.update_count()));
  }
  std::vector<float> state(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(state))));
  PADDLE_TRY_STATUS(file.finish());
  PADDLE_TRY_STATUS(check_finite(file, state, "state"));
  update_count = file.update_count();
  return state;
}

Result<std::vector<std::uint64_t>> read_removed(const Directory& root, const FileEntry& entry,
                                                const BlockHeader& header, std::uint64_t count) {
  PADDLE_TRY(BlockReader file, BlockReader::open(root, entry, header));
  if (file.bytes_left() / sizeof(std::uint64_t) != count ||
      file.bytes_left() % sizeof(std::uint64_t) != 0) {
    return file.error(fmt::format("expected {} ids, found {} bytes", count, file.bytes_left()));
  }
  std::vector<std::uint64_t> ids(count);
  PADDLE_TRY_STATUS(file.read(std::as_writable_bytes(std::span(ids))));
  PADDLE_TRY_STATUS(file.finish());
  return ids;
}

}  // namespace paddle::snapshot
