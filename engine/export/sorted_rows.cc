#include "engine/export/sorted_rows.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include <fmt/format.h>

namespace paddle::exporting {
namespace {

constexpr std::size_t kMergeBytes = 64U << 20U;  // of all runs together
constexpr std::size_t kWriteBytes = 1U << 20U;   // at a time

Result<UniqueFd> open_scratch(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  // Not every file system has files without a name.
  std::string pattern = folder + "/.paddle-export-XXXXXX";
  UniqueFd named(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!named) return system_error(Errc::kResource, "make a file in " + folder);
  ::unlink(pattern.c_str());
  return named;
}

}  // namespace

// The rows of one run, through a buffer.
class SortedRows::RunReader {
 public:
  RunReader(int file, const Run& run, std::size_t row_bytes, std::size_t buffer_bytes)
      : file_(file),
        offset_(run.offset),
        left_(run.rows),
        row_bytes_(row_bytes),
        buffer_(std::max<std::size_t>(1, buffer_bytes / row_bytes) * row_bytes),
        at_(buffer_.size()) {}

  // False at the end.
  Result<bool> next() {
    at_ += row_bytes_;
    if (left_ == 0) return false;
    if (at_ >= buffer_.size()) {
      const std::size_t rows = std::min<std::uint64_t>(left_, buffer_.size() / row_bytes_);
      const std::size_t bytes = rows * row_bytes_;
      at_ = buffer_.size() - bytes;
      if (!read_at(file_, std::span(buffer_).subspan(at_), offset_))
        return system_error(Errc::kResource, "read sorted rows");
      offset_ += bytes;
    }
    --left_;
    return true;
  }
  std::uint64_t id() const { return load_le<std::uint64_t>(buffer_.data() + at_); }
  void copy_values(std::span<float> to) const {
    std::memcpy(to.data(), buffer_.data() + at_ + sizeof(std::uint64_t), to.size_bytes());
  }

 private:
  int file_;
  std::uint64_t offset_;
  std::uint64_t left_;
  std::size_t row_bytes_;
  Bytes buffer_;
  std::size_t at_;
};

Status SortedRows::add(std::uint64_t id, std::span<const float> values) {
  PADDLE_CHECK(values.size() == width_);
  if (!ids_.empty() && (ids_.size() + 1) * row_bytes() > bytes_max_)
    PADDLE_TRY_STATUS(write_latest());
  ids_.push_back(id);
  values_.insert(values_.end(), values.begin(), values.end());
  ++rows_;
  return {};
}

void SortedRows::sort_latest() {
  order_.resize(ids_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::sort(order_, {}, [this](std::uint32_t row) { return ids_[row]; });
}

Status SortedRows::write_latest() {
  if (!file_) {
    PADDLE_TRY(file_, open_scratch(folder_));
  }
  sort_latest();
  const Run run{file_bytes_, ids_.size()};
  Bytes bytes;
  const auto write = [&]() -> Status {
    if (!write_at(file_.get(), bytes, file_bytes_))
      return system_error(Errc::kResource, "write sorted rows in " + folder_);
    file_bytes_ += bytes.size();
    bytes.clear();
    return {};
  };
  for (const std::uint32_t row : order_) {
    const std::size_t at = bytes.size();
    bytes.resize(at + row_bytes());
    store_le(bytes.data() + at, ids_[row]);
    std::memcpy(bytes.data() + at + sizeof(std::uint64_t), values_.data() + row * width_,
                width_ * sizeof(float));
    if (bytes.size() >= kWriteBytes) PADDLE_TRY_STATUS(write());
  }
  PADDLE_TRY_STATUS(write());
  runs_.push_back(run);
  ids_.clear();
  values_.clear();
  return {};
}

Status SortedRows::seal() {
  const bool are_few = runs_.empty() && ids_.size() * row_bytes() <= kSealedBytesMax;
  if (!are_few && !ids_.empty()) PADDLE_TRY_STATUS(write_latest());
  if (!are_few) order_.clear();
  ids_.shrink_to_fit();
  values_.shrink_to_fit();
  order_.shrink_to_fit();
  return {};
}

std::size_t SortedRows::memory_bytes() const {
  return ids_.capacity() * sizeof(std::uint64_t) + values_.capacity() * sizeof(float) +
         order_.capacity() * sizeof(std::uint32_t);
}

Status SortedRows::for_each(
    const std::function<Status(std::uint64_t id, std::span<const float> values)>& use) {
  if (runs_.empty()) {
    sort_latest();
    for (const std::uint32_t row : order_)
      PADDLE_TRY_STATUS(use(ids_[row], std::span(values_).subspan(row * width_, width_)));
    return {};
  }
  if (!ids_.empty()) PADDLE_TRY_STATUS(write_latest());
  // The least of the runs' next rows comes first.
  std::vector<std::unique_ptr<RunReader>> heap;
  for (const Run& run : runs_) {
    auto reader =
        std::make_unique<RunReader>(file_.get(), run, row_bytes(), kMergeBytes / runs_.size());
    PADDLE_TRY(const bool has_rows, reader->next());
    if (has_rows) heap.push_back(std::move(reader));
  }
  const auto is_later = [](const auto& a, const auto& b) { return a->id() > b->id(); };
  std::ranges::make_heap(heap, is_later);
  std::vector<float> values(width_);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, is_later);
    RunReader& least = *heap.back();
    least.copy_values(values);
    PADDLE_TRY_STATUS(use(least.id(), values));
    PADDLE_TRY(const bool has_more, least.next());
    if (has_more) {
      std::ranges::push_heap(heap, is_later);
    } else {
      heap.pop_back();
    }
  }
  return {};
}

}  // namespace paddle::exporting
