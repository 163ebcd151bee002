// The pure parts: arrays that agree, slices, frames, the first words on a connection, what waits, rounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kv/frame.h"
#include "kv/handshake.h"
#include "kv/sameness.h"
#include "kv/send_queue.h"
#include "kv/slicing.h"
#include "kv/timestamps.h"
#include "tally/kv_merge.h"

namespace tally::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of which it has as many as an int has: a program that runs for weeks comes to the last one.
TEST(KvTimestamps, BehindTheLastTheyBeginAgainWithoutThoseInUse) {
  const auto in_use = [](int timestamp) { return timestamp <= 1; };
  Timestamps timestamps(Timestamps::kLast - 1);
  EXPECT_EQ(timestamps.given(), "it has made none");
  EXPECT_EQ(timestamps.take(in_use), Timestamps::kLast - 1);
  EXPECT_EQ(timestamps.given(), "they are 2147483646..2147483646");
  EXPECT_FALSE(timestamps.has_given(0));
  EXPECT_FALSE(timestamps.has_given(Timestamps::kLast));
  EXPECT_EQ(timestamps.take(in_use), Timestamps::kLast);
  EXPECT_TRUE(timestamps.has_given(Timestamps::kLast));
  EXPECT_EQ(timestamps.take(in_use), 2);
  EXPECT_TRUE(timestamps.has_given(2));
  EXPECT_FALSE(timestamps.has_given(-1));
  EXPECT_EQ(timestamps.next(), 3);
}

TEST(KvSlicing, RangesShareAllKeysOut) {
  for (const int servers : {1, 2, 3, 7, 1024}) {
    const auto ranges = ranges_of(servers);
    ASSERT_EQ(ranges.size(), static_cast<std::size_t>(servers));
    EXPECT_EQ(ranges.front().begin(), 0U);
    EXPECT_EQ(ranges.back().end(), kMaxKey);
    for (std::size_t i = 1; i < ranges.size(); ++i) EXPECT_EQ(ranges[i].begin(), ranges[i - 1].end());
  }
  EXPECT_TRUE(ranges_of(0).empty());
}

TEST(KvSlicing, EveryKeyIsInTheSliceOfItsRangeWithItsValues) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto ranges = ranges_of(1 + static_cast<int>(random() % 6));
    std::vector<Key> keys(1 + random() % 20);
    for (Key& key : keys)
      key = random() % 4 == 0 ? ranges[random() % ranges.size()].begin() + random() % 2 : random();
    if (random() % 3 == 0) keys.push_back(kMaxKey);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<int> lens;
    std::size_t vals = keys.size() * (1 + random() % 3);
    if (random() % 2 == 0) {
      vals = 0;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        lens.push_back(static_cast<int>(random() % 4));
        vals += static_cast<std::size_t>(lens.back());
      }
    }
    std::size_t key = 0;
    std::size_t val = 0;
    const auto slices = slices_of(keys, lens, vals, ranges);
    ASSERT_EQ(slices.size(), ranges.size());
    for (std::size_t i = 0; i < slices.size(); ++i) {
      ASSERT_EQ(slices[i].key, key);
      ASSERT_EQ(slices[i].val, val);
      for (std::size_t j = 0; j < slices[i].keys; ++j, ++key) {
        ASSERT_GE(keys[key], ranges[i].begin());
        ASSERT_TRUE(keys[key] < ranges[i].end() || i + 1 == ranges.size());
        val += lens.empty() ? vals / keys.size() : static_cast<std::size_t>(lens[key]);
      }
      ASSERT_EQ(val, slices[i].val + slices[i].vals);
    }
    ASSERT_EQ(key, keys.size());
    ASSERT_EQ(val, vals);
  }
}

Frame request_of(std::vector<Key> keys, std::vector<float> vals, int priority = 0) {
  Frame frame;
  frame.type = FrameType::kRequest;
  frame.push = true;
  frame.kind = value_kind<float>();
  frame.priority = priority;
  frame.data = {SArray<Key>(keys), SArray<std::byte>(SArray<float>(vals)), {}};
  return frame;
}

// As a connection does it, in one buffer.
std::optional<Frame> through(const Frame& frame, std::size_t most = 1 << 20) {
  const auto parsed = parse_header(header_of(frame), most);
  if (!parsed) return std::nullopt;
  const FrameSizes sizes = sizes_of(frame);
  std::shared_ptr<std::byte> body(new std::byte[sizes.total() + 1], [](std::byte* own) { delete[] own; });
  std::byte* at = body.get();
  const auto put = [&at](const void* data, std::size_t bytes) {
    if (bytes != 0) std::memcpy(at, data, bytes);
    at += bytes;
  };
  put(frame.data.keys.data(), 8 * sizes.keys);
  put(frame.data.vals.data(), sizes.vals);
  at += sizes.padding();
  put(frame.data.lens.data(), 4 * sizes.lens);
  put(frame.text.data(), sizes.text);
  return with_body(*parsed, body);
}

TEST(KvFrame, ArrivesAsItLeft) {
  Frame frame = request_of({1, 2, kMaxKey}, {1, 2, 3}, -7);
  frame.pull = true;
  frame.app = 3;
  frame.customer = 1;
  frame.timestamp = 2'000'000'000;
  frame.cmd = -1;
  frame.index = -1;
  frame.data.lens = {1, 1, 1};
  frame.text = "why";
  const auto got = through(frame);
  ASSERT_TRUE(got);
  EXPECT_EQ(header_of(*got), header_of(frame));
  EXPECT_THAT(std::vector<Key>(got->data.keys.begin(), got->data.keys.end()), ElementsAre(1, 2, kMaxKey));
  const SArray<float> vals(got->data.vals);
  EXPECT_THAT(std::vector<float>(vals.begin(), vals.end()), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::vector<int>(got->data.lens.begin(), got->data.lens.end()), ElementsAre(1, 1, 1));
  EXPECT_EQ(got->text, "why");
  EXPECT_FALSE(through(frame, 30));  // more than may come
}

// Whatever a header says, what it makes us hold is within the bound; wrong magic, type and flags are no header.
TEST(KvFrame, RandomHeadersNeverAskForMoreThanTheBound) {
  std::mt19937_64 random(2);
  int taken = 0;
  for (int round = 0; round < 50'000; ++round) {
    FrameHeader header = header_of(request_of({1}, {1}));
    for (std::uint64_t i = 0; i <= random() % 4; ++i)
      header[random() % header.size()] = static_cast<std::byte>(random());
    const auto parsed = parse_header(header, 4096);
    if (!parsed) continue;
    ++taken;
    ASSERT_LE(parsed->sizes.total(), 4096U);
    ASSERT_LE(parsed->sizes.keys, 512U);
  }
  EXPECT_GT(taken, 500);
  FrameHeader header = header_of(request_of({1}, {1}));
  header[40] = std::byte{0xFF};  // values: near 2^64, which must not wrap round
  EXPECT_FALSE(parse_header(header, 4096));
}

TEST(KvFrame, RequestsThatCannotBeAreObjectedTo) {
  EXPECT_FALSE(objection_to_request(request_of({1, 2}, {1, 2})));
  EXPECT_EQ(objection_to_request(request_of({2, 1}, {1, 2}))->index, 1);
  EXPECT_TRUE(objection_to_request(request_of({1, 2}, {1, 2, 3})));
  Frame odd = request_of({1}, {1});
  odd.data.vals.resize(3);
  EXPECT_THAT(objection_to_request(odd)->text, HasSubstr("no type"));
  Frame kind = request_of({1}, {1});
  kind.kind = static_cast<ValueKind>(7);
  EXPECT_THAT(objection_to_request(kind)->text, HasSubstr("no type"));
  kind.kind = static_cast<ValueKind>(0);
  EXPECT_THAT(objection_to_request(kind)->text, HasSubstr("no type"));
  Frame neither = request_of({1}, {1});
  neither.push = false;
  EXPECT_THAT(objection_to_request(neither)->text, HasSubstr("neither"));
  neither.pull = true;
  EXPECT_THAT(objection_to_request(neither)->text, HasSubstr("pushes none"));
}

TEST(KvHandshake, BothProveTheToken) {
  const auto run = [](const std::string& caller_token, const std::string& callee_token) {
    Handshake caller(system_key(caller_token), true, {Role::kWorks, 3, 77}, 1, 2);
    Handshake callee(system_key(callee_token), false, {Role::kServes, 1, 77}, 3, 4);
    Handshake::Step step = caller.begin();
    for (bool to_callee = true; step.say; to_callee = !to_callee) {
      step = (to_callee ? callee : caller).take(*step.say);
      if (!step.refused.empty()) return step.refused;
    }
    EXPECT_EQ(callee.peer().rank, 3);
    EXPECT_EQ(caller.peer().role, Role::kServes);
    return std::string(caller.done() && callee.done() ? "" : "not done");
  };
  EXPECT_EQ(run("secret", "secret"), "");
  EXPECT_EQ(run("", ""), "");
  EXPECT_THAT(run("secret", "other"), HasSubstr("another token"));
}

TEST(KvHandshake, RefusesOtherVersionsSystemsAndWords) {
  const auto callee = [] { return Handshake(system_key(""), false, {Role::kServes, 0, 77}, 3, 4); };
  Handshake caller(system_key(""), true, {Role::kWorks, 0, 78}, 1, 2);
  const Frame hello = *caller.begin().say;
  EXPECT_THAT(callee().take(hello).refused, HasSubstr("another key-value system"));
  Frame newer = hello;
  newer.data.keys.CopyFrom(hello.data.keys);
  newer.data.keys[0] = kFrameVersion + 1;
  Handshake old = callee();
  const auto step = old.take(newer);
  EXPECT_THAT(step.refused, HasSubstr("it speaks version 3 of this protocol, and this is version 2"));
  ASSERT_TRUE(step.say);  // so the newer one says it, too
  Handshake newcomer(system_key(""), true, {Role::kWorks, 0, 77}, 1, 2);
  EXPECT_THAT(newcomer.take(newer).refused, HasSubstr("version"));
  for (const std::size_t word : {1U, 2U}) {
    Frame wrong = hello;
    wrong.data.keys.CopyFrom(hello.data.keys);
    wrong.data.keys[word] = ~Key{0};
    EXPECT_THAT(callee().take(wrong).refused, HasSubstr("what there is not"));
  }
  Frame early = hello;
  early.type = FrameType::kRequest;
  EXPECT_THAT(callee().take(early).refused, HasSubstr("without a greeting"));
}

// What the callee said cannot be given back to it by who does not know the token.
TEST(KvHandshake, AnEchoIsNoProof) {
  Handshake callee(system_key("secret"), false, {Role::kServes, 0, 0}, 3, 4);
  Handshake other(system_key("secret"), false, {Role::kServes, 0, 0}, 3, 4);
  Handshake caller(system_key("secret"), true, {Role::kServes, 0, 0}, 3, 4);
  const Frame hello = *caller.begin().say;
  (void)callee.take(hello);
  const auto mine = caller.take(*other.take(hello).say);
  const auto theirs = other.take(*mine.say);  // the callee's proof of an equal conversation
  ASSERT_TRUE(theirs.say);
  EXPECT_THAT(callee.take(*theirs.say).refused, HasSubstr("another token"));
}

TEST(KvSendQueue, PriorityNeverOvertakesTheSameKeys) {
  SendQueue queue(1 << 20);
  const auto push = [&queue](std::vector<Key> keys, int priority, int name) {
    Frame frame = request_of(keys, std::vector<float>(keys.size()), priority);
    frame.timestamp = name;
    ASSERT_TRUE(queue.push(std::move(frame)));
  };
  push({1, 5}, 0, 0);
  push({7, 9}, 0, 1);
  push({20}, 1, 2);    // before both
  push({5, 6}, 3, 3);  // 5 is in the first: behind it, before {7, 9}
  push({30}, 0, 4);
  std::vector<int> order;
  while (auto frame = queue.pop()) order.push_back(frame->timestamp);
  EXPECT_THAT(order, ElementsAre(2, 0, 3, 1, 4));
}

TEST(KvSendQueue, IsBoundedUntilItIsSent) {
  SendQueue queue(200);
  ASSERT_TRUE(queue.push(request_of({1}, {1})));
  ASSERT_TRUE(queue.push(request_of({1}, {1})));
  EXPECT_FALSE(queue.push(request_of({1}, {1})));
  const auto first = queue.pop();
  EXPECT_FALSE(queue.push(request_of({1}, {1})));
  queue.sent(*first);
  EXPECT_TRUE(queue.push(request_of({1}, {1})));
}

KVMeta from(int rank) {
  KVMeta meta;
  meta.push = true;
  meta.sender = 9 + 2 * rank;
  return meta;
}

TEST(KvMerge, ARoundHasEachWorkerOnceAndOnlyEqualRequestsMerge) {
  MergeRounds<float> rounds(2);
  const KVPairs<float> one{{1, 2}, {1, 2}, {}, 0};
  EXPECT_TRUE(rounds.add(from(0), one).empty());
  EXPECT_TRUE(rounds.add(from(0), {{1, 2}, {10, 20}, {}, 0}).empty());  // the next round
  EXPECT_TRUE(rounds.add(from(1), {{1, 3}, {1, 2}, {}, 0}).empty());    // other keys
  KVMeta other = from(1);
  other.cmd = 5;
  EXPECT_TRUE(rounds.add(other, one).empty());
  const auto first = rounds.add(from(1), {{1, 2}, {3, 4}, {}, 0});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].meta.num_merge, 2);
  EXPECT_THAT(first[0].meta.contributors, ElementsAre(3U));
  EXPECT_THAT(std::vector<float>(first[0].data.vals.begin(), first[0].data.vals.end()), ElementsAre(4, 6));
  EXPECT_EQ(one.vals[0], 1);  // what was pushed stays as it is
  const auto second = rounds.add(from(1), one);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_THAT(std::vector<float>(second[0].data.vals.begin(), second[0].data.vals.end()),
              ElementsAre(11, 22));
  // {1, 3} and cmd 5 wait for worker 0.
  const auto hopeless = rounds.take_hopeless(0);
  ASSERT_EQ(hopeless.size(), 2U);
  EXPECT_EQ(hopeless[0].rank(), 1);
  EXPECT_TRUE(rounds.take_hopeless(1).empty());
}

// A push that was under way when a worker was lost waited for ever for that worker's.
TEST(KvMerge, APushAfterALossBeginsNoRoundAndJoinsThoseThatTheLostOneIsIn) {
  MergeRounds<float> rounds(2);
  const KVPairs<float> one{{1}, {1}, {}, 0};
  EXPECT_TRUE(rounds.add(from(1), one).empty());
  EXPECT_TRUE(rounds.take_hopeless(1).empty());
  EXPECT_EQ(rounds.add(from(0), one).size(), 1U);
  for (int again = 0; again < 2; ++again) {
    try {
      (void)rounds.add(from(0), one);
      FAIL();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), ErrorCode::kAborted);
      EXPECT_THAT(failure.what(), HasSubstr("worker 1 is lost, and had not pushed yet"));
    }
  }
}

// Who is in it is told, and so is who comes later: nobody waits for somebody who has had an answer.
TEST(KvMerge, ARoundThatThereIsNoRoomForFailsForAllAndTheNextIsAnother) {
  std::size_t room = 0;
  MergeRounds<float> rounds(2, [&room](std::size_t bytes) {
    if (bytes > room) throw Failure(ErrorCode::kRefused, std::to_string(bytes) + " bytes");
  });
  const KVPairs<float> data{{1, 2}, {1, 1, 1, 1}, {}, 0};
  const std::size_t bytes = 2 * (2 * sizeof(Key) + 4 * sizeof(float));
  const auto why = [&](int rank) -> std::string {
    try {
      EXPECT_TRUE(rounds.add(from(rank), data).empty());
      return "";
    } catch (const Failure& failure) {
      return failure.what();
    }
  };
  room = bytes - 1;
  EXPECT_EQ(why(0), std::to_string(bytes) + " bytes");
  room = 10 * bytes;
  EXPECT_EQ(why(0), "") << "the next round";
  EXPECT_EQ(rounds.bytes(), bytes + 2 * sizeof(Key)) << "of the one that failed its keys";
  EXPECT_EQ(why(1), std::to_string(bytes) + " bytes") << "of the first round, though there is room now";
  EXPECT_EQ(rounds.bytes(), bytes);
  const auto complete = rounds.add(from(1), data);
  ASSERT_EQ(complete.size(), 1U);
  EXPECT_EQ(complete[0].data.vals[0], 2);
  EXPECT_EQ(rounds.bytes(), 0U);
  // A loss ends rounds, and who has been told is not told again.
  room = bytes;
  EXPECT_EQ(why(0), "");
  room = 0;
  EXPECT_NE(why(0), "");
  EXPECT_EQ(rounds.take_hopeless(1).size(), 1U);
  EXPECT_EQ(rounds.bytes(), 0U);
}

TEST(KvMerge, OtherNumbersOfValuesAreRefusedAndTheRoundGoesOn) {
  MergeRounds<float> rounds(2);
  EXPECT_TRUE(rounds.add(from(0), {{1}, {1}, {}, 0}).empty());
  try {
    (void)rounds.add(from(1), {{1}, {1, 2}, {}, 0});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("worker 1 pushes 2 values for keys of which worker 0 pushed 1"));
  }
  EXPECT_EQ(rounds.add(from(1), {{1}, {5}, {}, 0}).size(), 1U);
}

// Half of 64 workers say 2^11 more in a piece: workers times the squares differs from the square of the sum by 2^32, which
// is nothing modulo 2^32.
TEST(KvSameness, NamesThatDifferByWhatSumsCannotHoldAreToldApart) {
  const auto sum_of = [](int workers, std::uint64_t some, std::uint64_t others) {
    std::vector<std::int32_t> sums(kQuestionWords);
    for (int worker = 0; worker < workers; ++worker) {
      const auto words = question_of(worker % 2 == 0 ? some : others);
      for (std::size_t i = 0; i < words.size(); ++i)
        sums[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) +
                                            static_cast<std::uint32_t>(words[i]));
    }
    return sums;
  };
  constexpr std::uint64_t kLargest = (std::uint64_t{1} << 60) - 1;
  for (const int workers : {1, 2, 64, 256}) {
    EXPECT_TRUE(all_equal(sum_of(workers, kLargest, kLargest), workers)) << workers;
    EXPECT_EQ(all_equal(sum_of(workers, 5, 5 + 2048), workers), workers == 1) << workers;
    EXPECT_EQ(all_equal(sum_of(workers, kLargest, kLargest - 1), workers), workers == 1) << workers;
  }
}

TEST(KvArray, SharesMemoryAndGrowsApart) {
  SArray<int> a{1, 2, 3};
  SArray<int> b = a;
  b[0] = 9;
  EXPECT_EQ(a[0], 9);
  SArray<int> part = a.segment(1, 3);
  part[0] = 7;
  EXPECT_EQ(a[1], 7);
  b.push_back(4);  // memory of its own
  b[0] = 1;
  EXPECT_EQ(a[0], 9);
  EXPECT_EQ(b.size(), 4U);
  b.append(b);
  EXPECT_THAT(std::vector<int>(b.begin(), b.end()), ElementsAre(1, 7, 3, 4, 1, 7, 3, 4));
  const SArray<char> bytes(a);
  EXPECT_EQ(bytes.size(), 12U);
  const auto vector = std::make_shared<std::vector<int>>(2, 5);
  const SArray<int> view(vector);
  view[1] = 6;
  EXPECT_THAT(*vector, ElementsAre(5, 6));
  a.clear();
  EXPECT_TRUE(a.empty());
  a.resize(3, 8);
  EXPECT_THAT(std::vector<int>(a.begin(), a.end()), ElementsAre(8, 8, 8));
}

}  // namespace
}  // namespace tally::kv
