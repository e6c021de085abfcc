"""Questions find passages in scripts with and without spaces between words, however their letters are
encoded.
"""

from __future__ import annotations

import asyncio
import unicodedata
from typing import Any

import pytest

from ragc.corpora.sources.bm25 import Bm25Source
from ragc.corpora.sources.terms import analyze, query_terms, words
from ragc.records import Passage

# A passage and a question on it a line.
LANGUAGES = {
    "Korean": """
서울은 대한민국의 수도이며 한강이 흐른다. | 한국의 수도는 어디인가요?
물은 섭씨 100도에서 끓는다. | 물의 끓는점은 몇 도입니까?
세종대왕은 1443년에 한글을 창제하였다. | 한글을 만든 왕은 누구입니까?
김치는 배추와 고춧가루로 담근다. | 김치를 담글 때 무엇이 들어가나요?
제주도는 한국에서 가장 큰 섬이다. | 가장 큰 섬의 이름은?
도서관은 월요일에 문을 닫는다. | 도서관이 쉬는 요일은 언제인가요?
지하철 요금은 1400원이다. | 지하철을 타려면 얼마를 내야 합니까?
고양이는 하루에 열여섯 시간을 잔다. | 고양이가 자는 시간은?
부산에서는 해마다 영화제가 열린다. | 영화제를 여는 도시는 어디죠?
환자는 약을 하루 두 번 먹어야 한다. | 약은 하루에 몇 번 복용하나요?
""",
    "Thai": """
กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย | เมืองหลวงของไทยชื่ออะไร
น้ำเดือดที่อุณหภูมิหนึ่งร้อยองศา | น้ำเดือดที่กี่องศา
ช้างเป็นสัตว์ประจำชาติ | สัตว์ประจำชาติคืออะไร
ห้องสมุดปิดทุกวันจันทร์ | ห้องสมุดปิดวันไหน
ต้มยำกุ้งใส่ตะไคร้และใบมะกรูด | ต้มยำกุ้งใส่อะไรบ้าง
แม่น้ำโขงไหลผ่านหกประเทศ | แม่น้ำโขงไหลผ่านกี่ประเทศ
สงกรานต์จัดขึ้นในเดือนเมษายน | สงกรานต์อยู่เดือนไหน
แมวนอนวันละสิบหกชั่วโมง | แมวนอนกี่ชั่วโมง
รถไฟออกจากสถานีเวลาแปดโมง | รถไฟออกกี่โมง
ผู้ป่วยควรกินยาหลังอาหาร | ควรกินยาเมื่อไร
""",
    "Japanese": """
東京は日本の首都で、人口が最も多い。 | 日本の首都はどこですか。
富士山の高さは3776メートルである。 | 富士山は何メートルですか。
図書館は月曜日に休館する。 | 図書館が休みの曜日は？
夏目漱石は「坊っちゃん」を書いた。 | 坊っちゃんの作者は誰ですか。
水は百度で沸騰する。 | 水が沸騰するのは何度？
猫は一日に十六時間眠る。 | 猫の睡眠は何時間ですか。
新幹線の切符は駅の窓口で買える。 | 新幹線の切符を買う場所は？
ラーメンのスープは豚の骨から作る。 | ラーメンのスープは何から作りますか。
薬は食後に二回飲むこと。 | 薬はいつ飲みますか。
コーヒーは南米から輸入される。 | コーヒーの輸入元はどこですか。
""",
    "Arabic": """
القاهرة هي عاصمة مصر وتقع على نهر النيل. | ما هي عاصمة مصر؟
يَغلي الماء عند مئة درجة مئوية. | عند أي درجة يغلي الماء؟
كتب نجيب محفوظ رواية أولاد حارتنا. | من كتب رواية اولاد حارتنا؟
تغلق المكتبة يوم الاثنين. | متى تغلق المكتبة؟
تنام القطة ست عشرة ساعة في اليوم. | كم ساعة تنام القطة؟
يبلغ ارتفاع الجبل ثلاثة آلاف متر. | كم يبلغ ارتفاع الجبل؟
يصل القطار إلى المحطة في الثامنة. | متى يصل القطار الى المحطة؟
يؤخذ الدواء بعد الطعام مرتين. | متى يؤخذ الدواء؟
تُصنع القهوة من حبوب البن. | مم تصنع القهوة؟
العـــربية لغة رسمية في المغرب. | ما اللغة العربية الرسمية في المغرب؟
""",
}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("form", ["NFC", "NFKD"])
def test_a_question_finds_its_passage(language: str, form: Any) -> None:
    lines = LANGUAGES[language].strip().splitlines()
    pairs = [line.split(" | ") for line in lines]
    source = Bm25Source(Passage(f"p{n}", "", passage) for n, (passage, _) in enumerate(pairs))
    for n, (_, question) in enumerate(pairs):
        hits = asyncio.run(source.search(unicodedata.normalize(form, question), 3))
        assert hits[0].passage.id == f"p{n}", question


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("O'Brien's CAFE\u0301—2nd", ["o", "brien", "s", "café", "2nd"]),
        ("İstanbul I\u0307zmir", ["istanbul", "izmir"]),
        ("re\u00adport zero\u200bwidth \ufeffmark", ["report", "zerowidth", "mark"]),
        ("Straße ﬁne ＡＢＣ１", ["strasse", "fine", "abc1"]),
        ("हिन्दी की किताब", ["हिन्दी", "की", "किताब"]),
        ("14¹ days, 10⁶ H₂O", ["14", "days", "10", "h2o"]),
        ("قَرَأَ می‌خواهم", ["قرا", "ميخواهم"]),
        ("東京x 猫", ["x", "東", "京", "東京", "猫"]),
        ("ភាសា", ["ភា", "សា", "ភាសា"]),
        ("?! …", []),
    ],
)
def test_terms_are_words_without_case_and_pairs_where_scripts_have_no_spaces(
    text: str, terms: list[str]
) -> None:
    assert analyze(text) == terms


def test_a_query_has_no_stop_words_unless_it_has_no_others() -> None:
    assert query_terms("Who is the king?") == ["king"]
    assert query_terms("The Who") == ["the", "who"]


def test_words_are_counted_without_pairs() -> None:
    assert words("東京 tower") == ["tower", "東", "京"]
