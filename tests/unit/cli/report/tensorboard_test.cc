#include "cli/report/tensorboard.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "cli/report/report.h"
#include "tests/support/finished_job.h"

namespace paddle::cli {
namespace {

// A reader of event files written from the format's page: every length and checksum must hold.
struct Scalar {
  std::int64_t step = 0;
  double wall_time = 0;
  std::string tag;
  float value = 0;
};

std::uint64_t varint(std::string_view& data) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(data.front());
    data.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

template <class T>
T fixed(std::string_view& data) {
  T value;
  std::memcpy(&value, data.data(), sizeof value);
  data.remove_prefix(sizeof value);
  return value;
}

// Field number -> raw bytes, the last of each.
std::map<std::uint64_t, std::string> fields(std::string_view data) {
  std::map<std::uint64_t, std::string> found;
  while (!data.empty()) {
    const std::uint64_t key = varint(data);
    std::string_view before = data;
    std::size_t size = 0;
    switch (key & 7U) {
      case 0:
        varint(data);
        size = before.size() - data.size();
        break;
      case 1:
        size = 8;
        break;
      case 5:
        size = 4;
        break;
      default:
        size = varint(data);
        before = data;
    }
    found[key >> 3U] = before.substr(0, size);
    data = before.substr(size);
  }
  return found;
}

std::uint32_t masked(std::string_view data) {
  // CRC32C by its definition, bit by bit.
  std::uint32_t crc = 0xffffffffU;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int i = 0; i < 8; ++i) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  crc = ~crc;
  return std::rotr(crc, 15) + 0xa282ead8U;
}

std::vector<Scalar> read_events(std::string_view data, std::string& version) {
  std::vector<Scalar> scalars;
  while (!data.empty()) {
    const std::string_view head = data.substr(0, 8);
    const auto size = fixed<std::uint64_t>(data);
    EXPECT_EQ(fixed<std::uint32_t>(data), masked(head));
    const std::string_view body = data.substr(0, size);
    data.remove_prefix(size);
    EXPECT_EQ(fixed<std::uint32_t>(data), masked(body));
    auto event = fields(body);
    if (event.contains(3)) version = event[3];
    if (!event.contains(5)) continue;
    auto value = fields(fields(event[5])[1]);
    Scalar scalar;
    std::string_view step = event[2];
    if (!step.empty()) scalar.step = static_cast<std::int64_t>(varint(step));
    std::string_view time = event[1];
    scalar.wall_time = fixed<double>(time);
    scalar.tag = value[1];
    std::string_view number = value[2];
    scalar.value = fixed<float>(number);
    scalars.push_back(scalar);
  }
  return scalars;
}

TEST(EventFiles, AReaderOfTheFormatFindsEveryCurve) {
  test::FinishedJob job;
  ASSERT_TRUE(make_report(job.folder.path(), "j", ""));
  const std::string name = "events.out.tfevents.1700000000.paddlectl";
  std::string version;
  const auto whole =
      read_events(test::TemporaryFolder::read(job.folder / ("j/tensorboard/" + name)), version);
  EXPECT_EQ(version, "brain.Event:2");
  ASSERT_EQ(whole.size(), 10U) << "two passes: samples, cost, auc; held-out cost, auc";
  EXPECT_EQ(whole[1].tag, "job/cost");
  EXPECT_EQ(whole[1].step, 50);
  EXPECT_EQ(whole[1].value, 1.5F);
  EXPECT_EQ(whole[9].tag, "held-out/auc");
  EXPECT_EQ(whole[9].step, 100) << "batches of all passes";
  EXPECT_DOUBLE_EQ(whole[9].wall_time, 1700000001.6);
  const auto own = read_events(
      test::TemporaryFolder::read(job.folder / ("j/tensorboard/trainer-0/" + name)), version);
  EXPECT_EQ(own.size(), 40U);
  EXPECT_EQ(own.back().tag, "train/auc");
  EXPECT_FALSE(std::filesystem::exists(job.folder / "up"));
  EXPECT_FALSE(std::filesystem::exists(job.folder / "j/up"));
}

}  // namespace
}  // namespace paddle::cli
