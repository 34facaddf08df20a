// npy, version 1.0 of numpy's own format, and npz, a zip of such files without compression.
#include <zlib.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/snapshot/export_formats.h"

namespace paddle::exporting {
namespace {

// A tuple as Python writes it: "(2, 3)", "(2,)".
std::string tuple(const std::vector<std::uint64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

// `descr` is written as Python writes it. Values begin at a multiple of 64 bytes.
std::string npy_header(std::string_view descr, const std::vector<std::uint64_t>& shape) {
  constexpr std::size_t kAlignment = 64, kMagicBytes = 10;
  std::string text =
      fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': {}, }}", descr, tuple(shape));
  const std::size_t used = kMagicBytes + text.size() + 1;
  text.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  text.push_back('\n');
  std::string header("\x93NUMPY\x01\x00", 8);
  header.push_back(static_cast<char>(text.size() & 0xffU));
  header.push_back(static_cast<char>(text.size() >> 8U));
  return header + text;
}

class Little {
 public:
  template <class T>
  Little& add(std::type_identity_t<T> value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    store_le<T>(bytes_.data() + at, value);
    return *this;
  }
  Little& add(std::string_view text) {
    const ByteSpan bytes = as_bytes(text);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

// A zip64 archive of stored entries, whose sizes are known before they are written, and checksums
// after.
class Zip {
 public:
  explicit Zip(Sink& sink) : sink_(sink) {}

  Status begin(const std::string& name, std::uint64_t size) {
    entries_.push_back({name, size, sink_.written(), 0});
    Little head;
    head.add<std::uint32_t>(0x04034b50);
    add_common(head, entries_.back());
    head.add<std::uint16_t>(20);  // bytes of the extra field
    head.add(name);
    head.add<std::uint16_t>(1).add<std::uint16_t>(16).add<std::uint64_t>(size).add<std::uint64_t>(
        size);
    return sink_.write(head.bytes());
  }
  Status write(ByteSpan bytes) {
    Entry& entry = entries_.back();
    entry.crc = static_cast<std::uint32_t>(
        ::crc32_z(entry.crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
    return sink_.write(bytes);
  }
  Status end() {
    constexpr std::uint64_t kCrcOffset = 14;  // in the local header
    Little crc;
    crc.add<std::uint32_t>(entries_.back().crc);
    return sink_.patch(entries_.back().offset + kCrcOffset, crc.bytes());
  }
  // Writes the central directory, after all entries.
  Status finish() {
    const std::uint64_t begin = sink_.written();
    for (const Entry& entry : entries_) {
      Little head;
      head.add<std::uint32_t>(0x02014b50).add<std::uint16_t>(45);
      add_common(head, entry);
      head.add<std::uint16_t>(28);  // bytes of the extra field
      head.add<std::uint16_t>(0).add<std::uint16_t>(0).add<std::uint16_t>(0).add<std::uint32_t>(0);
      head.add<std::uint32_t>(UINT32_MAX);  // the offset is in the extra field
      head.add(entry.name);
      head.add<std::uint16_t>(1).add<std::uint16_t>(24);
      head.add<std::uint64_t>(entry.size).add<std::uint64_t>(entry.size);
      head.add<std::uint64_t>(entry.offset);
      PADDLE_TRY_STATUS(sink_.write(head.bytes()));
    }
    const std::uint64_t end = sink_.written();
    Little tail;
    tail.add<std::uint32_t>(0x06064b50).add<std::uint64_t>(44);
    tail.add<std::uint16_t>(45).add<std::uint16_t>(45);
    tail.add<std::uint32_t>(0).add<std::uint32_t>(0);
    tail.add<std::uint64_t>(entries_.size()).add<std::uint64_t>(entries_.size());
    tail.add<std::uint64_t>(end - begin).add<std::uint64_t>(begin);
    tail.add<std::uint32_t>(0x07064b50).add<std::uint32_t>(0).add<std::uint64_t>(end);
    tail.add<std::uint32_t>(1);
    tail.add<std::uint32_t>(0x06054b50).add<std::uint16_t>(0).add<std::uint16_t>(0);
    tail.add<std::uint16_t>(UINT16_MAX).add<std::uint16_t>(UINT16_MAX);
    tail.add<std::uint32_t>(UINT32_MAX).add<std::uint32_t>(UINT32_MAX).add<std::uint16_t>(0);
    return sink_.write(tail.bytes());
  }

 private:
  struct Entry {
    std::string name;
    std::uint64_t size;
    std::uint64_t offset;
    std::uint32_t crc;
  };

  // The common fields: version, flags, method, time, date, checksum, sizes (in the extra field),
  // bytes of the name.
  static void add_common(Little& head, const Entry& entry) {
    constexpr std::uint16_t kUtf8 = 0x0800, kFirstDay = 0x0021;  // 1980-01-01
    head.add<std::uint16_t>(45).add<std::uint16_t>(kUtf8).add<std::uint16_t>(0);
    head.add<std::uint16_t>(0).add<std::uint16_t>(kFirstDay).add<std::uint32_t>(entry.crc);
    head.add<std::uint32_t>(UINT32_MAX).add<std::uint32_t>(UINT32_MAX);
    head.add<std::uint16_t>(static_cast<std::uint16_t>(entry.name.size()));
  }

  Sink& sink_;
  std::vector<Entry> entries_;
};

// Adds one array to the archive; `append` is called with the id and the values of each row.
template <class Append>
Status add_array(Zip& zip, const Source& source, const std::string& name, std::string_view descr,
                 const std::vector<std::uint64_t>& shape, std::uint64_t bytes,
                 const Append& append) {
  const std::string header = npy_header(descr, shape);
  PADDLE_TRY_STATUS(zip.begin(name + ".npy", header.size() + bytes));
  PADDLE_TRY_STATUS(zip.write(as_bytes(header)));
  PADDLE_TRY_STATUS(source.for_rows(append));
  return zip.end();
}

}  // namespace

Status write_npy(const ExportJob& job, Sink& sink) {
  const Source& source = job.sources.front();
  const std::string descr =
      source.is_table() ? fmt::format("[('id', '<u8'), ('values', '<f4', ({},))]", source.width())
                        : "'<f4'";
  PADDLE_TRY_STATUS(sink.write(
      npy_header(descr, source.is_table() ? std::vector{source.rows()} : source.shape())));
  return source.for_rows([&](std::uint64_t id, std::span<const float> values) -> Status {
    if (source.is_table()) {
      PADDLE_TRY_STATUS(sink.write(bytes_of(std::span<const std::uint64_t>(&id, 1))));
    }
    return sink.write(bytes_of(values));
  });
}

Status write_npz(const ExportJob& job, Sink& sink) {
  Zip zip(sink);
  for (const Source& source : job.sources) {
    const auto add_values = [&](std::uint64_t, std::span<const float> values) {
      return zip.write(bytes_of(values));
    };
    const std::uint64_t bytes = source.rows() * source.width() * sizeof(float);
    if (source.is_table()) {
      PADDLE_TRY_STATUS(add_array(
          zip, source, source.name() + kIds, "'<u8'", {source.rows()},
          source.rows() * sizeof(std::uint64_t), [&](std::uint64_t id, std::span<const float>) {
            return zip.write(bytes_of(std::span<const std::uint64_t>(&id, 1)));
          }));
    }
    PADDLE_TRY_STATUS(add_array(zip, source, source.name() + (source.is_table() ? kValues : ""),
                                "'<f4'", source.shape(), bytes, add_values));
  }
  return zip.finish();
}

}  // namespace paddle::exporting
