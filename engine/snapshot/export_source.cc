#include "engine/snapshot/export_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fd.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/text_file.h"
#include "engine/table/parameter_set.h"
#include "engine/table/row_notes.h"

namespace paddle::exporting {
namespace {

constexpr std::size_t kMergeBytes = 64U << 20U;  // buffers of all runs together
constexpr std::size_t kWriteBytes = 1U << 20U;   // bytes written at a time

Result<UniqueFd> open_scratch(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  // Not every file system supports files without a name.
  std::string pattern = folder + "/.paddle-export-XXXXXX";
  UniqueFd named(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!named) return system_error(Errc::kResource, "make a file in " + folder);
  ::unlink(pattern.c_str());
  return named;
}

constexpr std::size_t kDictionaryBytesMax = 1U << 30U;

std::vector<std::string> words_in(std::string bytes) {
  const std::string text = text_of_lines(std::move(bytes));
  std::vector<std::string> words;
  for (std::string_view left = text; !left.empty();) {
    const std::size_t end = std::min(left.find('\n'), left.size());
    std::string& word = words.emplace_back(left.substr(0, end));
    if (word.ends_with('\r')) word.pop_back();
    std::ranges::replace_if(
        word, [](char c) { return c == ' ' || c == '\t'; }, '_');
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return words;
}

}  // namespace

// Reads the rows of one run through a buffer.
class SortedRows::RunReader {
 public:
  RunReader(int file, const Run& run, std::size_t row_bytes, std::size_t buffer_bytes)
      : file_(file),
        offset_(run.offset),
        left_(run.rows),
        row_bytes_(row_bytes),
        buffer_(std::max<std::size_t>(1, buffer_bytes / row_bytes) * row_bytes),
        at_(buffer_.size()) {}

  // Reads the next row; false at the end.
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
  // The runs' next rows are in a heap, the one with the smallest id on top.
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

Result<Source> Source::open(const snapshot::SnapshotReader& snapshot,
                            const wire::ParameterSpec& spec, const std::string& scratch) {
  Source source(snapshot);
  source.spec_ = spec;
  if (!spec.sparse()) {
    source.width_ = static_cast<std::size_t>(spec.dims(spec.dims_size() - 1));
    return source;
  }
  source.width_ = static_cast<std::size_t>(parameter::row_width(spec));
  source.rows_ = std::make_unique<SortedRows>(source.width_, scratch);
  PADDLE_TRY_STATUS(snapshot.read_rows(spec.name(), [&](const table::Row& row) -> Status {
    if (row.marks.sightings > 0) return {};
    return source.rows_->add(row.id, row.value);
  }));
  return source;
}

std::uint64_t Source::rows() const {
  return rows_ ? rows_->rows() : parameter::element_count(spec_) / width_;
}

std::vector<std::uint64_t> Source::shape() const {
  if (rows_) return {rows(), width_};
  return {spec_.dims().begin(), spec_.dims().end()};
}

Status Source::for_rows(
    const std::function<Status(std::uint64_t id, std::span<const float> values)>& use) const {
  if (rows_) return rows_->for_each(use);
  PADDLE_TRY(const std::vector<float> values, snapshot_->read_dense_value(name()));
  for (std::uint64_t row = 0; row < rows(); ++row)
    PADDLE_TRY_STATUS(use(row, std::span(values).subspan(row * width_, width_)));
  return {};
}

Result<std::vector<std::uint64_t>> shape_of(const snapshot::SnapshotReader& snapshot,
                                            const wire::ParameterSpec& spec) {
  if (!spec.sparse()) return std::vector<std::uint64_t>(spec.dims().begin(), spec.dims().end());
  std::uint64_t rows = 0;
  PADDLE_TRY_STATUS(snapshot.read_rows(spec.name(), [&](const table::Row& row) -> Status {
    rows += row.marks.sightings > 0 ? 0 : 1;
    return {};
  }));
  return std::vector<std::uint64_t>{rows, parameter::row_width(spec)};
}

std::string scratch_folder(const std::string& output) {
  if (!output.empty()) {
    const std::size_t slash = output.rfind('/');
    return slash == std::string::npos ? "." : output.substr(0, slash + 1);
  }
  const char* const folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == 0 ? "/tmp" : folder;
}

Result<std::vector<wire::ParameterSpec>> choose_parameters(const snapshot::SnapshotReader& snapshot,
                                                           const std::string& name) {
  std::vector<wire::ParameterSpec> specs = snapshot.parameters();
  if (name.empty()) return specs;
  const auto found = std::ranges::find(specs, name, &wire::ParameterSpec::name);
  if (found != specs.end()) return std::vector<wire::ParameterSpec>{*found};
  std::vector<std::string_view> names;
  for (const auto& each : specs) names.push_back(each.name());
  const std::string near = nearest(name, names);
  return Error{Errc::kUsage, fmt::format("{} has no parameter '{}'", snapshot.directory(), name),
               near.empty() ? fmt::format("it has: {}", fmt::join(names, ", "))
                            : fmt::format("did you mean '{}'?", near)};
}

Result<std::vector<std::string>> words_of(const snapshot::SnapshotReader& snapshot,
                                          const wire::ParameterSpec& parameter,
                                          const std::string& given) {
  const bool has_rows = parameter.sparse() || parameter.dims_size() == 2;
  PADDLE_TRY(const auto hash, snapshot.read_model_file("model/dictionary.txt.sha256"));
  if (!given.empty()) {
    PADDLE_TRY(std::string text, read_file(given, kDictionaryBytesMax));
    if (!hash || hash->starts_with(to_hex(sha256_of(as_bytes(text)))))
      return words_in(std::move(text));
    return Error{
        Errc::kData,
        fmt::format("{} is not the dictionary that {} was trained with", given,
                    snapshot.directory()),
        fmt::format("the SHA-256 of that dictionary is {}", hash->substr(0, hash->find(' ')))};
  }
  if (hash && has_rows) {
    return Error{Errc::kUsage,
                 fmt::format("{} has only the hash of its dictionary, which was too large",
                             snapshot.directory()),
                 "name the file: --dictionary=PATH; --format=text writes ids instead of words"};
  }
  PADDLE_TRY(auto own, snapshot.read_model_file("model/dictionary.txt"));
  if (!own) return std::vector<std::string>();
  std::vector<std::string> words = words_in(*std::move(own));
  const bool is_of_words = parameter.sparse() || (has_rows && parameter.dims(0) == words.size());
  return is_of_words ? std::move(words) : std::vector<std::string>();
}

}  // namespace paddle::exporting
