#include "cli/job/npz_sample.h"

#include <fcntl.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/text.h"
#include "cli/console/console.h"
#include "engine/data/npy.h"
#include "engine/data/zip_archive.h"

namespace paddle::cli {
namespace {

using data::ZipArchive;

constexpr std::string_view kSuffix = ".npy";
constexpr std::uint64_t kWidthMax = 1 << 16;

// The numbers of a record.
std::uint64_t width_of(const data::NpyHeader& header) {
  std::uint64_t all = 1;
  for (std::size_t i = 1; i < header.shape.size() && all <= kWidthMax; ++i)
    all *= std::min(header.shape[i], kWidthMax + 1);
  return all;
}

// The header of an array that a slot may read; or why none can.
Result<data::NpyHeader> read_header(data::ByteSource& source) {
  PADDLE_TRY(data::NpyHeader header, data::read_npy_header(source));
  if (header.shape.empty()) return Error{Errc::kData, "it is a single number"};
  const std::uint64_t width = width_of(header);
  if (width > 0 && width <= kWidthMax) return header;
  return Error{Errc::kData, fmt::format("a record of it has no number, or over {}", kWidthMax)};
}

// A number as text; "" for NaN.
template <class Number>
std::string number_text(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    if (std::isnan(number)) return "";
  }
  return fmt::format("{}", number);
}

Status read_numbers(data::ByteSource& source, const data::NpyHeader& header, std::uint64_t records,
                    SampleColumn& column, TableSample& sample) {
  const std::uint64_t count = records * column.width;
  Bytes bytes(count * header.type.bytes);
  PADDLE_TRY_STATUS(data::read_exactly(source, bytes));
  sample.sample_bytes += header.bytes + bytes.size();
  return data::each_number(bytes.data(), count, header.type, [&](auto number) {
    column.values.push_back(sample.texts.keep(number_text(number)));
    return Status();
  });
}

// Appends the array as a column.
Status add_array(const ZipArchive& archive, const std::string& name,
                 const ZipArchive::Member& member, const std::string& shown, std::size_t bytes_max,
                 TableSample& sample) {
  SampleColumn& column = sample.columns.emplace_back();
  column.name = name.substr(0, name.size() - kSuffix.size());
  auto source = archive.open_member(member);
  const Result<data::NpyHeader> header =
      source ? read_header(**source) : Result<data::NpyHeader>(source.error());
  if (!header) {
    const Error& error = header.error();
    column.unusable = error.message + (error.hint.empty() ? "" : ": " + error.hint);
    return {};
  }
  const std::uint64_t records = header->shape.front();
  if (sample.records_all == 0) sample.records_all = records;
  if (sample.records_all != records) {
    return Error{Errc::kData,
                 fmt::format("{}: array '{}' has {}, others {}", shown, escape_control(column.name),
                             counted(records, "record"), sample.records_all),
                 "save the arrays of one table, such as x and label, in a file of their own"};
  }
  column.width = static_cast<std::uint32_t>(width_of(*header));
  const std::uint64_t fitting = bytes_max / (header->type.bytes * column.width);
  const std::uint64_t wanted = std::min(records, std::max<std::uint64_t>(1, fitting));
  sample.is_whole = sample.is_whole && wanted == records;
  if (Status read = read_numbers(**source, *header, wanted, column, sample); !read) {
    Error error = read.error();
    if (error.hint.empty()) error.hint = "copy the file again";
    return std::move(error).with(fmt::format("{}: array '{}'", shown, escape_control(column.name)));
  }
  return {};
}

}  // namespace

Result<TableSample> sample_npz(const std::string& path, const std::string& shown) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return system_error(Errc::kUsage, shown);
  PADDLE_TRY(const ZipArchive archive, ZipArchive::open(std::move(file), shown));
  std::vector<std::pair<std::string, ZipArchive::Member>> arrays;
  for (const auto& [name, member] : archive.members()) {
    if (name.ends_with(kSuffix)) arrays.emplace_back(name, member);
    if (name.starts_with("xl/") || name == "content.xml") {
      return Error{Errc::kData, shown + ": it is a spreadsheet", "save the sheet as \"CSV UTF-8\""};
    }
  }
  if (arrays.empty()) {
    return Error{Errc::kData, shown + ": it is a zip archive without arrays of numpy",
                 "unpack it, and name the file with the records"};
  }
  if (arrays.size() > kSampleColumnsMax) {
    return Error{Errc::kData, fmt::format("{}: it has over {} arrays", shown, kSampleColumnsMax)};
  }
  // As they were saved.
  std::ranges::sort(arrays, {}, [](const auto& array) { return array.second.number; });
  TableSample sample;
  sample.format = "npz";
  sample.bytes = archive.file_bytes();
  sample.is_whole = true;
  for (const auto& [name, member] : arrays) {
    PADDLE_TRY_STATUS(
        add_array(archive, name, member, shown, kSampleBytesMax / arrays.size(), sample));
  }
  sample.records = sample.records_all;
  for (const SampleColumn& column : sample.columns) {
    if (column.unusable.empty())
      sample.records = std::min<std::uint64_t>(sample.records, column.values.size() / column.width);
  }
  // The same records of every array.
  for (SampleColumn& column : sample.columns) {
    if (column.unusable.empty()) column.values.resize(sample.records * column.width);
  }
  return sample;
}

}  // namespace paddle::cli
