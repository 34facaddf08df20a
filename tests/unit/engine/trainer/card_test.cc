#include "engine/trainer/card.h"

#include <gtest/gtest.h>

#include "engine/gpu/device.h"
#include "tests/unit/engine/trainer/fake_cards.h"

namespace paddle::trainer {
namespace {

using config::TrainDevice;

Error error_of(TrainDevice asked, const std::string& selected = "") {
  const auto opened = open_card(asked, selected);
  EXPECT_FALSE(opened);
  return opened ? Error{} : opened.error();
}

void expect_has(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(OpenCard, AProgramWithoutADriverTrainsOnCpusAlone) {
  EXPECT_EQ(*open_card(TrainDevice::kAuto, ""), nullptr);
  EXPECT_EQ(*open_card(TrainDevice::kCpu, "7"), nullptr);
  const Error refused = error_of(TrainDevice::kGpu);
  EXPECT_EQ(refused.code, Errc::kUsage);
  expect_has(refused.message, "[train] device = \"gpu\": this program is paddle");
  expect_has(refused.message, "paddle-gpu");
  expect_has(refused.hint, "paddlectl train --gpus");
  expect_has(refused.hint, "device = \"cpu\"");
}

TEST(OpenCard, IsTheOneThatIsSelectedElseTheFirst) {
  const FakeCards cards(3);
  EXPECT_EQ((*open_card(TrainDevice::kGpu, ""))->card().index, 0U);
  EXPECT_EQ((*open_card(TrainDevice::kGpu, "2"))->card().index, 2U);
  EXPECT_EQ((*open_card(TrainDevice::kAuto, "1"))->card().uuid, "GPU-fake-1");
  EXPECT_EQ(*open_card(TrainDevice::kCpu, "1"), nullptr);
  EXPECT_EQ(name_of((*open_card(TrainDevice::kGpu, "2"))->card()), "GPU 2 (Fake)");
}

TEST(OpenCard, Trap29OneThatIsNotThereIsRefusedWithTheirNumber) {
  const FakeCards cards(2);
  const Error refused = error_of(TrainDevice::kGpu, "2");
  EXPECT_EQ(refused.code, Errc::kUsage);
  expect_has(refused.message, "no card 2");
  expect_has(refused.message, "has 2");
  for (const char* wrong : {"0,1", "-1", "all", "1 ", "4294967296"}) {
    const Error unread = error_of(TrainDevice::kAuto, wrong);
    EXPECT_EQ(unread.code, Errc::kUsage) << wrong;
    expect_has(unread.message, std::string("FLAGS_selected_gpus=") + wrong);
  }
}

TEST(OpenCard, Trap30AMachineWithoutOneSaysWhyAndHowToTrainOnCpus) {
  for (const Error& failure : {test::no_driver(), test::old_driver(), test::missing_library()}) {
    FakeCards cards(1);
    cards.driver.fail(failure);
    const Error refused = error_of(TrainDevice::kGpu);
    EXPECT_EQ(refused.code, failure.code);
    EXPECT_EQ(refused.message, failure.message);
    expect_has(refused.hint, "CPUs");
    EXPECT_EQ(*open_card(TrainDevice::kAuto, ""), nullptr) << "is no error where nobody asks";
  }
}

}  // namespace
}  // namespace paddle::trainer
