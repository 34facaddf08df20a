// Fixture that compares streams from the middle of a pass with the whole one.
#pragma once

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"
#include "engine/data/pass_index.h"
#include "tests/unit/engine/data/data_fixture.h"

namespace paddle::data {

constexpr std::uint64_t kWindow = 60;
constexpr std::size_t kIndexBytes = 64U << 10U;

using Memory = std::vector<std::byte>;

inline std::uint64_t hash_of(const nn::Batch& batch) {
  std::uint64_t hash = batch.size;
  const auto add = [&](const auto& values) {
    hash = hash_combine(hash, values.size());
    for (const auto value : values) {
      if constexpr (sizeof(value) == sizeof(std::uint64_t)) {
        hash = hash_combine(hash, value);
      } else {
        hash = hash_combine(hash, std::bit_cast<std::uint32_t>(value));
      }
    }
  };
  for (const nn::Slot& slot : batch.slots) {
    add(slot.ids);
    add(slot.offsets);
    add(slot.values);
    add(slot.weights);
  }
  return hash;
}

class ResumeTest : public DataTest {
 protected:
  struct Pass {
    std::vector<std::uint64_t> batches;  // their hashes
    std::uint64_t bad_records = 0;
    std::uint64_t parsed = 0;
    std::optional<double> share_given;
  };

  ResumeTest() { options_.batch_size = 50; }

  // Reads at most `count` batches, or all and the end of the pass.
  Pass read_from(std::uint64_t skip, std::span<std::byte> index,
                 std::uint64_t count = std::numeric_limits<std::uint64_t>::max()) const {
    Pass pass;
    const auto stream = open_pass(options_, dictionary_, 1, skip, index);
    while (pass.batches.size() < count) {
      const auto batch = stream->next();
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch || !*batch) break;
      pass.batches.push_back(hash_of(**batch));
    }
    pass.bad_records = stream->bad_records();
    pass.parsed = stream->records_parsed();
    pass.share_given = stream->share_given();
    return pass;
  }

  void expect_same_from(std::uint64_t skip, const Pass& whole, const Pass& resumed) const {
    const std::size_t from = std::min<std::size_t>(skip, whole.batches.size());
    EXPECT_TRUE(std::ranges::equal(std::span(whole.batches).subspan(from), resumed.batches))
        << "from batch " << skip << ", with " << resumed.batches.size() << " batches";
    EXPECT_EQ(whole.bad_records, resumed.bad_records) << skip;
    EXPECT_EQ(whole.share_given, resumed.share_given) << skip;
  }

  // Without how much of a compressed file was read by then, which depends on the reads.
  std::vector<IndexedChunk> chunks_of(Memory& index) const {
    auto chunks = PassIndex(index, pass_key(options_, 1)).chunks();
    for (IndexedChunk& one : chunks) {
      one.begin.position = one.end.position = one.file_bytes = 0;
    }
    return chunks;
  }

  // The records that the index spares, and at most which others are parsed again: those between the
  // oldest record that a window holds, which is rarely older than this, and the newest.
  std::uint64_t parsed_max(std::uint64_t skip, std::uint64_t records, Memory& index) const {
    const auto window = static_cast<double>(options_.shuffle_records);
    const auto reach = static_cast<std::uint64_t>(window > 1 ? window * (std::log(window) + 5) : 0);
    std::uint64_t chunk = 0;
    for (const IndexedChunk& one : chunks_of(index)) {
      chunk = std::max(chunk, one.end_record - one.first_record);
    }
    const std::uint64_t skipped = std::min(skip * options_.batch_size, records);
    return records - skipped + reach + 2 * options_.data.files_at_once * chunk;
  }

  // Compares the streams from many batches with the whole one.
  void expect_resumes() const {
    Memory index(kIndexBytes);
    const Pass whole = read_from(0, index);
    ASSERT_GT(whole.batches.size(), 20U);
    EXPECT_EQ(read_from(0, {}).batches, whole.batches);
    const std::uint64_t last = whole.batches.size() - 1;
    const Memory of_all = index;
    const auto chunks = chunks_of(index);
    for (const std::uint64_t skip : {std::uint64_t{1}, std::uint64_t{2}, last / 3, last / 2,
                                     last - 9, last - 1, last, last + 1, last + 7}) {
      index = of_all;
      const Pass resumed = read_from(skip, index);
      expect_same_from(skip, whole, resumed);
      EXPECT_LE(resumed.parsed, parsed_max(skip, whole.parsed, index)) << skip;
      EXPECT_TRUE(chunks_of(index) == chunks) << skip;
      if (skip > last - 9) continue;
      // The stream before was stopped there, so that the index ends a few chunks later.
      index.assign(kIndexBytes, std::byte{});
      read_from(0, index, skip);
      expect_same_from(skip, whole, read_from(skip, index));
      EXPECT_TRUE(chunks_of(index) == chunks) << skip;
    }
    expect_same_from(last / 2, whole, read_from(last / 2, {}));
  }

  // Writes files of several chunks, and empty ones; line(i) is a line without its end.
  void write_files(const std::function<std::string(int)>& line) {
    options_.share.files.clear();
    int number = 0;
    for (const std::size_t bytes : {1'000'000, 600'000, 0, 900'000, 300'000, 1}) {
      std::string text;
      if (options_.data.has_header) text += line(-1) + "\n";
      while (text.size() < bytes) text += line(number++) + "\n";
      if (text.size() > 600'000) text.pop_back();
      if (bytes == 0) text.clear();
      const std::string name = fmt::format("part-{}", options_.share.files.size());
      options_.share.files.push_back(folder_.write(name, text));
    }
  }
  static std::string libsvm_line(int i) {
    return fmt::format("{} {}:{}.5 {}:1 #{:300}", i % 2, i, i % 1000, i % 97, "");
  }
  void write_libsvm() {
    options_.data.format = "libsvm";
    write_files(libsvm_line);
  }
};

}  // namespace paddle::data
