// Streams that begin in the middle of a pass.
#include "engine/data/pass_reader.h"

#include "tests/unit/engine/data/packing.h"
#include "tests/unit/engine/data/resume_fixture.h"

namespace paddle::data {
namespace {

using PassReaderTest = ResumeTest;

TEST_F(PassReaderTest, ResumesWithoutAShuffle) {
  write_libsvm();
  options_.data.threads = 1;
  expect_resumes();
  options_.shuffle_records = 1;
  options_.data.files_at_once = 3;
  expect_resumes();
}

TEST_F(PassReaderTest, ResumesAShuffle) {
  write_libsvm();
  for (const std::uint32_t files_at_once : {1U, 2U, 5U, 9U}) {
    for (const std::uint64_t window : {std::uint64_t{2}, kWindow, std::uint64_t{900}}) {
      options_.data.files_at_once = files_at_once;
      options_.data.threads = 1 + files_at_once % 4;
      options_.shuffle_records = window;
      SCOPED_TRACE(fmt::format("{} files at once, {} records", files_at_once, window));
      expect_resumes();
    }
  }
}

// As a job that was stopped in a pass goes on with batches of another size.
TEST_F(PassReaderTest, BatchesOfAnotherSizeGoOnWithTheNextRecord) {
  write_libsvm();
  options_.shuffle_records = kWindow;
  const auto records_from = [&](std::uint64_t skip, std::uint64_t batches, Memory& index) {
    std::vector<float> records;
    const auto stream = open_pass(options_, dictionary_, 1, skip, index);
    for (std::uint64_t i = 0; i < batches; ++i) {
      const auto batch = stream->next();
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch || !*batch) break;
      const auto features = std::ranges::find_if(
          (*batch)->slots, [](const nn::Slot& slot) { return !slot.weights.empty(); });
      if (features == (*batch)->slots.end()) break;
      const auto& weights = features->weights;
      const auto& offsets = features->offsets;
      for (std::size_t at = 0; at + 1 < offsets.size(); ++at)
        records.push_back(weights[offsets[at]]);
    }
    return records;
  };
  constexpr auto kAll = std::numeric_limits<std::uint64_t>::max();
  Memory none;
  const auto whole = records_from(0, kAll, none);
  ASSERT_GT(whole.size(), 2000U);
  const auto first = records_from(0, 13, none);
  ASSERT_EQ(first.size(), 13U * 50U);
  for (const std::uint32_t size : {7U, 50U, 64U, 1000U, 100'000U}) {
    options_.batch_size = size;
    options_.origin = PassOrigin{1, 13, 13 * 50};
    EXPECT_EQ(records_before(options_, 1, 13), 13U * 50U);
    EXPECT_EQ(records_before(options_, 1, 14), 13U * 50U + size);
    EXPECT_EQ(records_before(options_, 2, 14), 14U * size) << "the next pass knows no other size";
    Memory index(kIndexBytes);
    std::vector<float> all = first;
    const auto rest = records_from(13, kAll, index);
    all.insert(all.end(), rest.begin(), rest.end());
    EXPECT_EQ(all, whole) << size;
    // A trainer that comes back in the pass finds its place by the index.
    const auto after = records_from(14, kAll, index);
    const auto later = std::min<std::size_t>(rest.size(), size);
    EXPECT_EQ(after,
              std::vector<float>(rest.begin() + static_cast<std::ptrdiff_t>(later), rest.end()))
        << size;
  }
}

TEST_F(PassReaderTest, APlaceBehindTheDataHasNoRecord) {
  write_libsvm();
  options_.origin = PassOrigin{1, 13, 1'000'000};
  EXPECT_TRUE(read_from(13, {}).batches.empty());
}

TEST_F(PassReaderTest, ResumesAShuffleOfAllRecords) {
  write_libsvm();
  options_.shuffle_records = 1'000'000;
  Memory index(kIndexBytes);
  const Pass whole = read_from(0, index);
  for (const std::uint64_t skip : {1U, 40U, 80U}) {
    expect_same_from(skip, whole, read_from(skip, index));
  }
}

TEST_F(PassReaderTest, ResumesEachFormat) {
  options_.shuffle_records = kWindow;
  options_.data.format = "bow";
  write_files([](int i) { return fmt::format("{}\ta {}{:300}", i, i % 3 == 0 ? "c" : "a", ""); });
  expect_resumes();
  options_.data.format = "ngram";
  options_.data.ngram = 3;
  write_files([](int i) {
    std::string line;
    for (int word = 0; word < 10; ++word) line += (i >> word) % 2 == 0 ? "a " : "word ";
    return i % 5 == 0 ? "" : fmt::format("{:400}", line);
  });
  expect_resumes();
  options_.data.format = "criteo";
  write_files([](int i) {
    std::string line = fmt::format("{}", i % 2);
    for (int column = 0; column < 39; ++column) line += fmt::format("\t{}", i * 100'000LL + column);
    return line;
  });
  expect_resumes();
  options_.data.format = "csv";
  options_.data.has_header = true;
  options_.data.columns = {"number", "unused", "text"};
  options_.data.slots = {
      {.name = "n", .type = config::SlotType::kFloat, .columns = {0}},
      {.name = "t", .type = config::SlotType::kHash, .columns = {2}, .separator = '|'}};
  write_files([](int i) {
    return i < 0 ? "number,unused,text" : fmt::format("{}.5,\"{:200}\",a|b{}\r", i, "", i % 9);
  });
  expect_resumes();
}

TEST_F(PassReaderTest, ResumesJsonLines) {
  options_.shuffle_records = kWindow;
  options_.data.format = "jsonl";
  options_.data.slots = {{.name = "n", .type = config::SlotType::kFloat},
                         {.name = "t", .type = config::SlotType::kHashes}};
  write_files([](int i) {
    return fmt::format(R"({{"n": {}, "t": ["a", "b{}"], "unused": "{:200}"}})", i, i % 9, "");
  });
  expect_resumes();
}

TEST_F(PassReaderTest, ResumesMultislot) {
  options_.shuffle_records = kWindow;
  options_.data.format = "multislot";
  options_.data.slots = {{.name = "label"},
                         {.name = "left out", .type = config::SlotType::kIds, .used = false},
                         {.name = "values", .type = config::SlotType::kFloat, .width = 2}};
  write_files([](int i) {
    std::string line = "1 1 40";
    for (int id = 0; id < 40; ++id) line += fmt::format(" {}", i);
    return line + fmt::format(" 2 {} 0.5", i);
  });
  expect_resumes();
}

TEST_F(PassReaderTest, ResumesCompressedFiles) {
  options_.shuffle_records = kWindow;
  for (const std::uint32_t files_at_once : {1U, 3U}) {
    options_.data.files_at_once = files_at_once;
    write_libsvm();
    for (std::size_t i = 0; i < options_.share.files.size(); ++i) {
      std::string& file = options_.share.files[i];
      const std::string text = test::TemporaryFolder::read(file);
      file = i % 2 == 0 ? folder_.write(fmt::format("part-{}.gz", i), gzip(text))
                        : folder_.write(fmt::format("part-{}.zst", i), zstd(text));
    }
    expect_resumes();
  }
}

TEST_F(PassReaderTest, ResumesTheOutputOfAProgram) {
  write_libsvm();
  options_.shuffle_records = kWindow;
  options_.data.pipe_command = {"sed", "s/:1 /:7 /"};
  for (const std::uint32_t files_at_once : {1U, 3U}) {
    options_.data.files_at_once = files_at_once;
    expect_resumes();
  }
}

TEST_F(PassReaderTest, CountsTheBadRecordsOfTheWholePass) {
  options_.data.format = "libsvm";
  options_.data.skip_bad_records = true;
  write_files(
      [&](int i) { return i % 9 == 0 ? fmt::format("broken {:300}", "") : libsvm_line(i); });
  options_.shuffle_records = kWindow;
  for (const std::uint32_t files_at_once : {1U, 3U}) {
    options_.data.files_at_once = files_at_once;
    EXPECT_GT(read_from(0, {}).bad_records, 500U);
    expect_resumes();
  }
}

TEST_F(PassReaderTest, ResumesBehindALineThatIsTooLong) {
  options_.data.format = "libsvm";
  options_.data.skip_bad_records = true;
  const std::string long_line(kLineBytesMax + 100'000, 'x');
  write_files([&](int i) { return i == 900 ? long_line : libsvm_line(i); });
  Memory index(kIndexBytes);
  const Pass whole = read_from(0, index);
  EXPECT_EQ(whole.bad_records, 1U);
  for (const std::uint64_t skip : {10U, 30U}) {
    expect_same_from(skip, whole, read_from(skip, index));
  }
}

TEST_F(PassReaderTest, ResumesEachTrainersPart) {
  options_.data.format = "libsvm";
  options_.data.skip_bad_records = true;
  write_files([](int i) { return i % 70 == 0 ? "broken" : libsvm_line(i); });
  options_.share.records_split = true;
  options_.num_trainers = 3;
  options_.shuffle_records = kWindow;
  options_.batch_size = 20;
  options_.data.files_at_once = 2;
  for (const bool global_shuffle : {false, true}) {
    options_.data.global_shuffle = global_shuffle;
    for (options_.trainer_id = 0; options_.trainer_id < 3; ++options_.trainer_id) expect_resumes();
  }
}

TEST_F(PassReaderTest, AStreamThatResumedCanBeResumed) {
  write_libsvm();
  options_.shuffle_records = kWindow;
  options_.data.files_at_once = 2;
  Memory index(kIndexBytes);
  const Pass whole = read_from(0, {});
  for (std::uint64_t skip = 0; skip < whole.batches.size(); skip += 11) {
    const Pass part = read_from(skip, index, 11);
    for (std::size_t i = 0; i < part.batches.size(); ++i) {
      ASSERT_EQ(part.batches[i], whole.batches[skip + i]) << skip << " " << i;
    }
  }
}

TEST_F(PassReaderTest, AnIndexOfTheNewestChunksIsEnough) {
  write_libsvm();
  options_.shuffle_records = kWindow;
  Memory index(16 + 6 * 104);  // of 12 chunks
  const Pass whole = read_from(0, index);
  ASSERT_GT(PassIndex(index, pass_key(options_, 1)).first(), 3U);
  const std::uint64_t last = whole.batches.size() - 1;
  const Pass near = read_from(last, index);
  expect_same_from(last, whole, near);
  EXPECT_LT(near.parsed, whole.parsed / 4);
  const Pass far = read_from(2, index);
  expect_same_from(2, whole, far);
  EXPECT_EQ(far.parsed, whole.parsed);
}

TEST_F(PassReaderTest, AStreamThatResumesCanBeLeftAtOnce) {
  write_libsvm();
  options_.shuffle_records = kWindow;
  Memory index(kIndexBytes);
  const std::uint64_t batches = read_from(0, index).batches.size();
  for (const bool through_a_program : {false, true}) {
    if (through_a_program) options_.data.pipe_command = {"cat"};
    for (std::uint64_t skip = 1; skip < batches; skip += 20) {
      open_pass(options_, dictionary_, 1, skip, index);
    }
  }
}

}  // namespace
}  // namespace paddle::data
