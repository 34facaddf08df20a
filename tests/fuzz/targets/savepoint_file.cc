// The files of a shard's savepoints, whose bytes someone changed: as they came, or with every
// checksum made right again. A pserver's next incarnation reads them.
#include <memory>
#include <string>

#include "base/crc32c.h"
#include "engine/snapshot/folder_savepoint_store.h"
#include "tests/fuzz/input.h"
#include "tests/support/files/memory_files.h"

using namespace paddle;
using namespace paddle::snapshot;

namespace {

constexpr const char* kFolder = "/savepoints";
constexpr std::uint64_t kFingerprint = 7;
constexpr std::size_t kHeaderCrcAt = 40;
constexpr std::size_t kHeaderBytes = 44;
constexpr std::size_t kRecordHeadBytes = 12;
constexpr std::size_t kChangesMax = 8;

Bytes bytes_of_text(std::string_view text) {
  Bytes bytes;
  append_bytes(bytes, std::span(text.data(), text.size()));
  return bytes;
}

// A full savepoint and two that follow it.
test::MemoryFiles written() {
  test::MemoryFiles files;
  auto store = *FolderSavepointStore::open(kFolder, kFingerprint, nullptr, files);
  for (const std::uint64_t number : {3, 5, 8}) {
    store->begin(number, number == 3);
    for (std::uint32_t kind = 1; kind <= 3; ++kind) {
      store->add(kind, bytes_of_text(std::string(kind * number, 'r')));
    }
    store->end();
  }
  return files;
}

void put_crc(std::string& text, std::size_t at, std::uint32_t crc) {
  store_le<std::uint32_t>(reinterpret_cast<std::byte*>(text.data() + at), crc);
}

// Makes the checksums right of all records that are there.
void mend_checksums(std::string& text) {
  if (text.size() < kHeaderBytes) return;
  const auto part = [&](std::size_t at, std::size_t count) {
    return as_bytes(std::string_view(text).substr(at, count));
  };
  std::uint32_t crc = crc32c(part(0, kHeaderCrcAt));
  put_crc(text, kHeaderCrcAt, crc);
  for (std::size_t at = kHeaderBytes; text.size() - at >= kRecordHeadBytes;) {
    const auto length = load_le<std::uint64_t>(part(at + 4, 8).data());
    const std::size_t left = text.size() - at - kRecordHeadBytes;
    if (left < sizeof crc || length > left - sizeof crc) return;
    crc = crc32c(part(at, kRecordHeadBytes + length), crc);
    at += kRecordHeadBytes + length;
    put_crc(text, at, crc);
    at += sizeof crc;
  }
}

void change(fuzz::Input& input, std::string& text) {
  const std::size_t at = (input.byte() * 256U + input.byte()) % (text.size() + 1);
  switch (input.below(4)) {
    case 0:
      if (at < text.size()) text[at] = static_cast<char>(input.byte());
      return;
    case 1:
      text.erase(at, input.byte());
      return;
    case 2:
      text.insert(at, text.substr(0, input.byte()));
      return;
    default:
      text.insert(at, input.text(input.byte()));
  }
}

void change_file(fuzz::Input& input, test::MemoryFiles& files) {
  const std::vector<std::string> names = *files.list(kFolder);
  if (names.empty()) return;
  const std::string path = std::string(kFolder) + "/" + names[input.byte() % names.size()];
  std::string text = *files.read_file(path, 1U << 20U);
  for (std::uint8_t left = input.below(kChangesMax); left > 0; --left) change(input, text);
  if (!input.rarely(64)) mend_checksums(text);
  files.write(path, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const test::MemoryFiles kGood = written();
  test::MemoryFiles files(kGood.now());
  fuzz::Input input(data, size);
  for (std::uint8_t left = input.below(3); left > 0; --left) change_file(input, files);
  const auto store = *FolderSavepointStore::open(kFolder, kFingerprint, nullptr, files);
  const std::vector<std::uint64_t> numbers = store->whole();
  // A savepoint that was whole when it was opened may be damaged now.
  if (input.flag()) change_file(input, files);
  const auto use = [](std::uint32_t, ByteSpan payload) -> Status {
    if (payload.size() > kSavepointRecordBytesMax) std::abort();
    return {};
  };
  for (const std::uint64_t number : numbers) {
    const Status read = store->read(number, use);
    if (!read && read.error().code != Errc::kData) std::abort();
  }
  for (const std::uint64_t number : store->whole()) {
    if (!store->read(number, use)) std::abort();
  }
  store->forget_before(input.number());
  if (!store->forget_after(input.number())) std::abort();
  return 0;
}
