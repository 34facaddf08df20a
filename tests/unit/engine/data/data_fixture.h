// Fixture that writes files of records and reads them as a dataset.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/data/dataset.h"
#include "tests/support/temporary_folder.h"

namespace paddle::data {

// Text of an example: "0 1 2" for ids, "1:0.5" for weighted ids, "(1 2.5)" for floats; slots are
// separated by "|".
inline std::string text_of(const nn::Batch& batch, std::size_t example) {
  std::string text;
  for (const nn::Slot& slot : batch.slots) {
    if (&slot != &batch.slots.front()) text += "|";
    if (slot.ids.empty() && !slot.values.empty()) {
      const std::size_t width = slot.values.size() / batch.size;
      text += "(";
      for (std::size_t i = example * width; i < (example + 1) * width; ++i) {
        text += fmt::format("{}{}", text.back() == '(' ? "" : " ", slot.values[i]);
      }
      text += ")";
      continue;
    }
    const std::size_t begin = slot.offsets.empty() ? example : slot.offsets[example];
    const std::size_t end = slot.offsets.empty() ? example + 1 : slot.offsets[example + 1];
    for (std::size_t i = begin; i < end; ++i) {
      text += fmt::format("{}{}", i == begin ? "" : " ", slot.ids.at(i));
      if (!slot.weights.empty()) text += fmt::format(":{}", slot.weights.at(i));
    }
  }
  return text;
}

class DataTest : public testing::Test {
 protected:
  DataTest()
      : dictionary_(*Dictionary::read(folder_.write("words", "<s>\n<e>\na\nb\nc\n<unk>\n"))) {
    options_.data.format = "bow";
    options_.batch_size = 7;
    options_.folder = folder_.path();
  }

  struct Outcome {
    std::vector<std::string> records;
    std::vector<std::size_t> sizes;  // of the batches
    std::uint64_t bad_records = 0;
    Status status;
    bool operator==(const Outcome& other) const {
      return records == other.records && sizes == other.sizes && bad_records == other.bad_records &&
             bool(status) == bool(other.status);
    }
  };
  Outcome read(std::uint32_t pass = 0) const {
    Outcome outcome;
    const auto stream = open_pass(options_, dictionary_, pass);
    for (;;) {
      auto batch = stream->next();
      outcome.bad_records = stream->bad_records();
      if (!batch) outcome.status = std::move(batch).error();
      if (!outcome.status || !*batch) return outcome;
      outcome.sizes.push_back((*batch)->size);
      for (std::size_t i = 0; i < (*batch)->size; ++i) {
        outcome.records.push_back(text_of(**batch, i));
      }
    }
  }
  // Reads a pass that must have no error.
  std::vector<std::string> read_all(std::uint32_t pass = 0) const {
    Outcome outcome = read(pass);
    EXPECT_TRUE(outcome.status) << outcome.status.error().message;
    return outcome.records;
  }
  std::vector<std::string> parse(const std::string& text) {
    options_.share.files = {folder_.write("good.txt", text)};
    return read_all();
  }
  // Returns the error message without the folder.
  std::string mistake_of(const std::string& file) {
    options_.share.files = {file};
    const Outcome outcome = read();
    if (outcome.status) return "none";
    EXPECT_EQ(outcome.status.error().code, Errc::kData);
    std::string message = outcome.status.error().message;
    const std::size_t at = message.find(folder_.path() + "/");
    if (at != std::string::npos) message.erase(at, folder_.path().size() + 1);
    return message;
  }
  std::string mistake(const std::string& text) {
    return mistake_of(folder_.write("bad.txt", text));
  }
  std::string hint_of(const std::string& text) {
    options_.share.files = {folder_.write("bad.txt", text)};
    const Outcome outcome = read();
    return outcome.status ? "none" : outcome.status.error().hint;
  }

  test::TemporaryFolder folder_;
  Dictionary dictionary_;
  DatasetOptions options_;
};

}  // namespace paddle::data
