// Files of numpy arrays: a byte for the slots, one for what follows, the bytes. Those are a zip
// archive, or arrays of which an archive without mistakes is made.
#include <minizip/zip.h>

#include "engine/data/format.h"
#include "engine/data/npz_reader.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_folder.h"

using namespace paddle;

namespace {

constexpr std::uint64_t kRecordsMax = 100'000;

void write_member(zipFile zip, const char* name, std::string_view bytes) {
  ::zipOpenNewFileInZip(zip, name, nullptr, nullptr, 0, nullptr, 0, nullptr, Z_DEFLATED, 1);
  ::zipWriteInFileInZip(zip, bytes.data(), static_cast<unsigned>(bytes.size()));
  ::zipCloseFileInZip(zip);
}

std::string write_file(fuzz::Input& input) {
  static const test::TemporaryFolder kFolder;
  if (input.flag()) return kFolder.write("a.npz", std::string(input.rest()));
  const std::string path = kFolder / "b.npz";
  const zipFile zip = ::zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  for (const char* name : {"a.npy", "b.npy", "b_offsets.npy", "c.npy"}) {
    const std::size_t size = input.byte();
    write_member(zip, name, input.text(size));
  }
  ::zipClose(zip, nullptr);
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using config::SlotType;
  fuzz::Input input(bytes, size);
  const std::uint8_t options = input.byte();
  config::DataConfig config;
  config.format = "npz";
  config.slots = {{.name = "a"},
                  {.name = "b", .type = (options & 1U) != 0 ? SlotType::kId : SlotType::kIds},
                  {.name = "c", .type = SlotType::kFloat, .width = 1U + (options >> 7U)}};
  if ((options & 2U) != 0) config.slots[0].labels = {"1", "2", "-0.5"};
  std::vector<data::ClassNames> classes;
  for (const config::DataSlotConfig& slot : config.slots) classes.emplace_back(slot.labels);
  data::NpzReader reader(write_file(input), 0, config, {});
  data::Chunk chunk;
  data::RecordBlock block;
  std::uint64_t records = 0;
  while (records < kRecordsMax) {
    const auto found = reader.next(chunk);
    if (!found || !*found) break;
    records += chunk.records;
    block.clear();
    for (std::uint64_t record = 0; record < chunk.records; ++record) {
      const auto begin = block.end();
      if (!data::append_numbers(config, classes, chunk, record, block)) block.drop_since(begin);
    }
  }
  return 0;
}
