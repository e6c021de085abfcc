"""Annotations of real questions and passages by id: their parts, and pieces copied from them.

Written by hand in the forms in which people and models give them, before the checks that they test. The
questions and passages stand in the data sets, which are read where they lie; here are ids and short phrases.
"""

from __future__ import annotations

PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "hotpotqa/questions_dev.jsonl": {
        "5a8c7595554299585d9e36b6": (
            "What government position",
            "was held",
            "by the woman who portrayed Corliss Archer",
            "in the film Kiss and Tell",
        ),
        "5a85ea095542994775f606a8": (
            "what science fantasy young adult series",
            "has",
            "a set of companion books",
            "told in first person",
            "narrating the stories of enslaved worlds and alien species",
        ),
        "5a85b2d95542997b5ce40028": (
            "who",
            "was known, helped",
            "by his stage name Aladin",
            "organizations",
            "improve their performance",
            "as a consultant",
        ),
        "5ab56e32554299637185c594": (
            "Random House Tower, 888 7th Avenue",
            "are used",
            "for real estate",
        ),
        "5a75e05c55429976ec32bc5f": (
            "Brown State Fishing Lake",
            "is",
            "in a country",
            "that has a population of how many inhabitants",
        ),
        "5ae0d4c9554299603e418468": (
            "Roger O. Egeberg",
            "was",
            "Assistant Secretary for Health and Scientific Affairs",
            "during the administration of a president",
            "a president that served during what years?",
        ),
        "5ae6050f55429929b0807a5e": (
            "This singer",
            "voiced",
            "what hedgehog",
            "of “A Rather Blustery Day”",
            "also",
        ),
        "5ae2070a5542994d89d5b313": (
            "which performance act",
            "has",
            "a higher instrument-to-person ratio",
            "Badly Drawn Boy or Wolf Alice",
        ),
        "5ae22b8d554299234fd0440f": (
            "the father of Kasper Schmeichel",
            "was voted",
            "to be",
            "by IFFHS",
            "in 1992",
        ),
        "5ab51dae5542991779162d82": (
            "both Elko Regional Airport and Gerald R. Ford International Airport",
            "are located",
            "in Michigan.",
        ),
        "5a7a0e1e5542990783324e1a": (
            "dog's ancestors",
            "include",
            "Gordon Setters",
            "the Manchester Terrier or the Scotch Collie",
        ),
        "5a760ab65542994ccc918697": (
            "Alfred Balk",
            "served as",
            "the secretary",
            "Committee on the Employment of Minority Groups in the News Media",
            "under which United States Vice President",
        ),
        "5a7d54165542995f4f402256": (
            "a medieval fortress in Dirleton, East Lothian, Scotland",
            "borders",
            "on the south side",
            "of what coastal area",
        ),
        "5add61d65542995b365fab21": (
            "a former Soviet statesman",
            "did initiate",
            "what type of forum",
        ),
        "5abbf698554299114383a0b5": (
            "British medium bomber",
            "was used",
            "first generation, jet powered",
            "in the South-West Pacific theatre of World War II",
        ),
        "5a8f4c8d554299458435d5a3": (
            "Scott Parkin",
            "has been",
            "a vocal critic",
            "of ExxonMobil and another corporation",
            "has operations",
            "in how many countries",
        ),
        "5ac2acff55429921a00ab02b": (
            "Who",
            "is",
            "the younger brother",
            "episode guest stars of The Hard Easy",
        ),
        "5aba7cfe554299232ef4a2fd": (
            "The 2017-18 Wigan Athletic F.C. season",
            "will be",
            "a year",
            "in which the team competes in the league cup",
            "known as what",
            "for sponsorship reasons",
        ),
    },
    "nq/questions.jsonl": {
        "nqo-0000": (
            "Who",
            "got",
            "the first Nobel Prize in Physics",
        ),
        "nqo-0001": (
            "the next Deadpool movie",
            "is being released",
            "when",
        ),
        "nqo-0002": (
            "South-West wind",
            "blows",
            "across Nigeria",
            "between",
        ),
        "nqo-0003": (
            "HP",
            "does mean",
            "what",
            "in War and Order",
        ),
        "nqo-0004": (
            "who",
            "wrote",
            "first Declaration of Human Rights",
        ),
        "nqo-0005": (
            "who",
            "is",
            "owner of Reading Football Club",
        ),
        "nqo-0006": (
            "the Philadelphia",
            "won",
            "the superbowl",
            "the last time",
        ),
        "nqo-0007": (
            "how many episodes",
            "are",
            "in Dragon Ball Z",
        ),
        "nqo-0008": (
            "Who",
            "designed",
            "the garden city",
            "of New Earswick",
        ),
        "nqo-0009": (
            "the first step",
            "is",
            "in the evolution of the eye",
        ),
        "nqo-0010": (
            "the TV show 'The Curse of Oak Island'",
            "is filmed",
            "where",
        ),
        "nqo-0011": (
            "gall bladder",
            "is situated",
            "in the human body",
        ),
        "nqo-0012": (
            "who",
            "is",
            "current director of the US Mint",
        ),
        "nqo-0013": (
            "the main mineral",
            "is",
            "in lithium batteries",
        ),
        "nqo-0014": (
            "Right to property",
            "is",
            "according to the Constitution of India",
        ),
        "nqo-0015": (
            "the president of USA",
            "is",
            "right now",
        ),
        "nqo-0016": (
            "what part of the brain",
            "is",
            "in the middle cranial fossa",
        ),
        "nqo-0017": (
            "the greasers",
            "do live",
            "in The Outsiders",
            "where",
        ),
        "nqo-0018": (
            "who",
            "died",
            "in the plane crash",
            "Greys Anatomy",
        ),
        "nqo-0019": (
            "they",
            "do grow",
            "hops",
            "in the US",
        ),
        "nqo-0020": (
            "the dog's name",
            "is",
            "on Tom and Jerry",
            "what",
        ),
        "nqo-0021": (
            "most of Africa petroleum and natural gas",
            "are found",
            "in which regions",
        ),
        "nqo-0022": (
            "pearl",
            "is found",
            "in India",
            "in which sea",
        ),
        "nqo-0023": (
            "how many countries",
            "are",
            "a part of OPEC",
        ),
        "nqo-0100": (
            "Catch Me If You Can",
            "was made",
        ),
        "nqo-0101": (
            "Toyota",
            "did come",
            "first",
            "to the United States",
        ),
        "nqo-0102": (
            "the official symbol",
            "of the Carnival of Québec",
            "is",
        ),
        "nqo-0106": (
            "The Country Music Hall of Fame",
            "is located",
            "where",
        ),
        "nqo-0107": (
            "the characters",
            "do represent",
            "in 8 Mile",
            "who",
        ),
        "nqo-0108": (
            "who",
            "has won",
            "Indias Next Super Star",
        ),
        "nqo-0111": (
            "the Astros",
            "did play",
            "last time",
            "they were in the World Series",
        ),
        "nqo-0112": (
            "the minimum wage",
            "was established",
            "in the United States",
        ),
        "nqo-0114": (
            "the Regulatory Reform (Fire Safety) Order 2005",
            "did come into effect",
            "first",
        ),
    },
    "alce/asqa_questions.jsonl": {
        "8793099883447006698": (
            "the first Apple i-Phone",
            "was made",
            "When",
        ),
        "-881464876144297194": (
            "Who",
            "played",
            "the Weasley brothers",
            "in Harry Potter",
        ),
        "1650309494326541834": (
            "how many state parks",
            "are",
            "in Virginia",
        ),
        "-4633355453516911545": (
            "who",
            "plays",
            "Charlie",
            "on It's Always Sunny",
        ),
        "-7464414779466400769": (
            "The Lakers",
            "have won",
            "the Finals",
            "how many times",
        ),
        "7813254335895169912": (
            "Fruma Sarah",
            "is",
            "in “Fiddler on the Roof”",
        ),
        "732619765350082410": (
            "Toronto",
            "did host",
            "the MLB All-Star Game",
            "when",
        ),
        "6962706727076805207": (
            "What kind of car",
            "in *To Catch a Thief*",
        ),
        "-8056895208806271453": (
            "the plane crash",
            "was",
            "what season of Greys Anatomy",
        ),
        "4131723857510142703": (
            "Number of branches",
            "of Oriental Bank of Commerce",
            "in India",
        ),
        "-6617858863213285972": (
            "the Rams",
            "did go",
            "to St. Louis",
        ),
        "7341847432427402002": (
            "who",
            "sings",
            "the song",
            "for Stuck in the Middle",
        ),
        "3421083040429613594": (
            "who",
            "sang",
            "the song I’m Coming Out",
        ),
        "-3766268167311659635": (
            "episode 113 of Dragon Ball Super",
            "is coming out",
            "when",
        ),
        "-3675478481857186593": (
            "Fortnite Battle Royale",
            "is being released",
            "on Android",
        ),
        "3658847669702107248": (
            "England’s prime minister",
            "was",
            "during WW1",
        ),
        "-5842265707961388968": (
            "Who",
            "beat",
            "Villanova",
            "last year",
            "in the NCAA tournament",
        ),
        "-2352037698769402666": (
            "Who",
            "played",
            "Warden Hodges",
            "in Dad´s Army",
        ),
        "3783314997423605362": (
            "who",
            "is",
            "the highest-paid NBA player",
            "2017",
        ),
        "2240932998074597895": (
            "who",
            "does",
            "the voice of Darth Vader",
            "in Star Wars",
        ),
        "-8113348361974619629": (
            "the 12th day of Christmas",
            "does begin",
        ),
        "434290836324078234": (
            "who",
            "is opening",
            "for Shania Twain",
            "in Ottawa",
        ),
        "9184423694390444844": (
            "the most points scored",
            "is",
            "in an NBA game",
        ),
        "2771414991157063420": (
            "construction",
            "did start",
            "on the Sydney Harbour Bridge",
        ),
        "-5437055545265308142": (
            "Japanese hotel",
            "run by same family",
            "for 1,300 years",
        ),
        "-3176814404414677007": (
            "the US",
            "did enter",
            "the Second World War",
            "in Europe",
        ),
        "3863117877494111972": (
            "you",
            "do play as",
            "who",
            "in Resident Evil 7",
        ),
        "8439471156602817484": (
            "a player",
            "can be substituted",
            "in soccer",
        ),
    },
    "crag/questions.jsonl": {
        "3dbed55e-66a3-4dcd-907d-096f49387e41": (
            "Microsoft Office 2019",
            "is available",
            "in a greater number of languages",
            "than Microsoft Office 2013",
        ),
        "55b219e5-ba31-4318-a73d-551f0fb9c546": (
            "what company",
            "is",
            "the best performer",
            "in the Dow Jones",
            "today",
        ),
        "f8fc2c1a-4bcb-48be-857c-1b0dcf07034e": (
            "Between Heaven and Hell",
            "came out",
            "the other language",
            "originally",
        ),
        "ecc1e84c-b979-4479-8275-eaa62020643f": (
            "Rory McIlroy",
            "has won",
            "the Masters Tournament",
            "How many times",
        ),
        "db078969-dcfd-4bd3-8d07-ee8ceceebafd": (
            "the shortest highway",
            "is",
            "in the U.S.",
            "in feet",
        ),
        "ce79ed8a-73cb-42ef-935b-121c13a9c61a": (
            "which company",
            "have",
            "larger market cap",
            "PLYA, SEATW",
        ),
        "1d2e8c37-296a-4309-83a2-e84d66dd4bb0": (
            "DreamWorks Animation",
            "is owned by",
            "Time Warner or Universal Pictures",
        ),
    },
    "musique/questions_dev.jsonl": {
        "2hop__422295_8311": (
            "the sibling",
            "of Alice de Lusignan, Countess of Surrey",
            "was crowned",
            "When",
        ),
        "2hop__88906_55840": (
            "In “The King’s Speech”",
            "who",
            "played",
            "the person who was King of England in 1950",
        ),
        "2hop__85713_84469": (
            "in A League of Their Own",
            "the husband of the actress",
            "played Thelma in Thelma & Louise",
        ),
        "2hop__79875_72187": (
            "What character",
            "was played by the actress",
            "in the movie *Thelma and Louise*",
        ),
        "2hop__28287_89399": (
            "the voice of the character",
            "in SpongeBob SquarePants",
            "with the same name as the creature",
            "annelid larvae live like",
        ),
        "2hop__799936_20273": (
            "What year",
            "the author",
            "did die",
            "The First Blast of the Trumpet Against the Monstruous Regiment of Women",
        ),
        "2hop__25344_88628": (
            "the star",
            "did play",
            "who",
            "in 'True Grit'",
        ),
        "2hop__25396_593388": (
            "the father of the person",
            "issued the Tamworth Manifesto",
            "was",
        ),
        "2hop__810411_159673": (
            "is a character",
            "what other film",
            "the cast member of Now You See Him, Now You Don’t",
        ),
        "2hop__3131_3300": (
            "which season",
            "was on",
            "the runner-up of the third season of American Idol",
        ),
    },
    "2wikimultihopqa/questions_dev.jsonl": {
        "a488d6e2089211ebbd73ac1f6bf848b6": (
            "which film",
            "has the director who died later",
            "Majhli Didi, Dream of the Rhine",
        ),
        "cea269720bdd11eba7f7acde48001122": (
            "James Stanley's father",
            "did die",
            "where",
        ),
        "e3507058087c11ebbd6aac1f6bf848b6": (
            "The Adventures of Priscilla, Queen of the Desert or Harvest: 3,000 Years",
            "born earlier",
        ),
        "40f3b6b4093511ebbdaeac1f6bf848b6": (
            "was released",
            "more recently",
            "Boundaries of the Heart",
            "Truck Turner",
        ),
        "6392cf220bde11eba7f7acde48001122": (
            "the place of birth",
            "Henrik Selberg's father",
            "is",
            "of Henrik Selberg",
        ),
        "f92472df08e611ebbda5ac1f6bf848b6": (
            "Love in a Fallen City",
            "Mummy's Boys",
            "was born first",
        ),
        "72cfea12086711ebbd5eac1f6bf848b6": (
            "the directors of films",
            "Sword of the Empire and Seven Guns for Timothy",
            "are from the same country",
            "both",
        ),
    },
}
"""Parts of questions, by file and id; a slot that holds two of them has a comma between."""

NO_PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "hotpotqa/questions_dev.jsonl": {
        "5a8c7595554299585d9e36b6": (
            "Shirley Temple",
            "was given",
        ),
        "5ab56e32554299637185c594": (
            "in New York City",
            "Random House Avenue",
        ),
        "5a75e05c55429976ec32bc5f": (
            "Brown County, Kansas",
            "the population of the United States",
        ),
        "5ae0d4c9554299603e418468": (
            "Richard Nixon",
            "was Secretary of Defense",
        ),
        "5ae22b8d554299234fd0440f": (
            "in 1993",
            "Peter Schmeichel",
        ),
        "5ab51dae5542991779162d82": (
            "Elko International Airport",
            "are located in Nevada",
        ),
        "5a760ab65542994ccc918697": ("served as the president of the Committee",),
        "5abbf698554299114383a0b5": (
            "in World War I",
            "second-generation bomber",
        ),
    },
    "nq/questions.jsonl": {
        "nqo-0000": (
            "the second Nobel Prize in Physics",
            "in chemistry",
        ),
        "nqo-0007": ("how many seasons",),
        "nqo-0015": ("the vice president of USA",),
        "nqo-0019": ("did not grow",),
        "nqo-0022": ("in Persian Gulf",),
        "nqo-0101": (
            "did last come",
            "Honda",
        ),
        "nqo-0107": ("in 9 mile",),
        "nqo-0112": (
            "the maximum wage",
            "in the United Kingdom",
        ),
        "nqo-0114": ("Order 2006",),
    },
    "alce/asqa_questions.jsonl": {
        "-7464414779466400769": (
            "the Celtics",
            "have lost",
        ),
        "-3766268167311659635": ("episode 131 of Dragon Ball Super",),
        "3783314997423605362": ("in 2018",),
        "-8113348361974619629": ("the twelfth night of Christmas",),
        "3863117877494111972": ("in Resident Evil 4",),
    },
    "crag/questions.jsonl": {
        "3dbed55e-66a3-4dcd-907d-096f49387e41": ("Microsoft Office 2016",),
        "ecc1e84c-b979-4479-8275-eaa62020643f": ("has never won",),
    },
    "musique/questions_dev.jsonl": {
        "2hop__422295_8311": (
            "Henry III",
            "Countess of Sussex",
        ),
        "2hop__88906_55840": (
            "in 1915",
            "King of Scotland",
        ),
        "2hop__25344_88628": (
            "John Wayne",
            "did not play",
        ),
        "2hop__3131_3300": (
            "the second season of American Idol",
            "the winner of the third season",
        ),
    },
    "2wikimultihopqa/questions_dev.jsonl": {
        "a488d6e2089211ebbd73ac1f6bf848b6": (
            "the director who died earlier",
            "Majhli Rhine",
        ),
        "e3507058087c11ebbd6aac1f6bf848b6": (
            "2,000 years",
            "The Adventures of 3,000 Years",
        ),
        "6392cf220bde11eba7f7acde48001122": ("the place of death",),
        "72cfea12086711ebbd5eac1f6bf848b6": (
            "Sword for Timothy",
            "from the same city",
            "Seven Guns of the Empire",
        ),
    },
}
"""What is no part of the question: invented, of another question, or with a fact changed."""

PIECES: dict[str, dict[str, tuple[str, ...]]] = {
    "hotpotqa/corpus.jsonl.gz": {
        "hp-00001": (
            "served as Chief of Protocol of United States",
            "Shirley Temple Black was an American actress, singer, dancer, businesswoman and diplomat",
            "Hollywood’s number-one box office draw",
        ),
        "hp-00006": (
            "**1945 American comedy film**",
            "starring then 17 year old Shirley Temple as Corliss Archer.",
        ),
        "hp-00012": (
            'the second companion book to the "Animorphs" series',
            "written by K.A. Applegate",
        ),
        "hp-00018": (
            "It is told in the first person",
            "a science fantasy series of young-adult books",
        ),
        "hp-00023": (
            "also known by his stage name 'Aladin'",
            "former international management consultant",
        ),
        "hp-00027": (
            "the practice of helping organisations to improve their performance",
            "operating primarily through analysis of existing organizational problems",
        ),
        "hp-00033": (
            "a 628 ft tall modern-style office skyscraper in Midtown Manhattan",
            "completed in 1969, has 46 floors",
        ),
        "hp-00034": (
            "is used as headquarters of book publisher Random House",
            "52 story mixed use tower",
        ),
        "hp-00042": (
            "The lake is 62 acres in area",
            "a protected area in Brown County, Kansas, in the United States",
        ),
        "hp-00049": ("the county population was 9984",),
        "hp-00052": ("37th President of the United States, from 1969 until 1974",),
        "hp-00068": (
            "sung by Jim Cummings as 'Pooh'",
            "written by Robert and Richard Sherman",
        ),
        "hp-00070": ("a four piece alternative rock band from North London",),
        "hp-00082": (
            "voted the IFFHS World's Best Goalkeeper in 1992",
            "Peter Boleslaw Schmeichel MBE",
        ),
        "hp-00088": (
            "the son of former Manchester United and Danish international goalkeeper, Peter Schmeichel",
        ),
        "hp-00093": ("approximately 13 mi south-east of Grand Rapids, Michigan",),
        "hp-00101": ("a breed of dog of smooth haired terrier type",),
        "hp-00126": (
            "abandoned by end of the 17th century",
            "Dirleton Castle is a medieval fortress",
        ),
        "hp-00135": ("initiated by Mikhail Gorbachev in the ’90s",),
        "hp-00142": ("a British first generation, jet powered medium bomber",),
        "hp-00193": (
            "operations in more than 70 countries",
            "employs approximately 50 000 people",
        ),
        "hp-00204": ("He is the older brother of actor / comedian Bill Murray",),
    },
    "nq/corpus.jsonl.gz": {
        "nq-00000": (
            "The first Nobel prize in physics was awarded in 1901 to Wilhelm Conrad Rontgen of Germany",
            "who received 150782 SEK",
        ),
        "nq-00001": ("scheduled to be released in the United States on 18 May 2018",),
        "nq-00003": ("hit points or health points, shortened to “HP”",),
        "nq-00005": (
            "75 % owned by Renhe Sports Management Ltd",
            "100% Owned by Xiu Li Dai and Yongge Dai",
        ),
        "nq-00006": ("Super Bowl champions, having won *Super Bowl LII*",),
        "nq-00008": ("planner Raymond Unwin and architect Barry Parker",),
        "nq-00009": ("photoreceptor proteins that sense light, found even in unicellular organisms",),
        "nq-00011": ("the pear shaped gallbladder lies beneath the liver",),
        "nq-00012": ("Acting Principal Deputy Director, David Motl",),
        "nq-00015": ("Donald Trump is 45th and current president",),
        "nq-00016": ("the temporal lobes of the brain, and the pituitary gland",),
        "nq-00017": ("takes place in Tulsa, Oklahoma in 1965",),
        "nq-00018": ("Dr. Lexie Grey ultimately dies",),
        "nq-00019": (
            "the Yakima and Willamette valleys",
            "in the Hallertau in Germany",
        ),
        "nq-00021": ("the largest oil & gas producer in Africa",),
        "nq-00022": ("seawater pearls were retrieved by divers in Indian Ocean",),
        "nq-00023": ("an inter-governmental organization of 14 nations as of February 2018",),
        "nq-00102": ("recommissioned for an 11th series to air in 2019",),
        "nq-00104": ("Daisy Duke, Jessica Simpson",),
        "nq-00106": ("based loosely on Eminem’s actual upbringing",),
        "nq-00108": ("Their first video arcade game was 1975’s EVR Race",),
        "nq-00109": (
            "a 1987 song by Jamaican reggae band Inner Circle",
            "the opening theme to the US TV show Cops",
        ),
        "nq-00111": (
            "when a $.25 per hour standard was set",
            "In 1933 the Roosevelt Administration made first attempt at establishing a national minimum wage",
        ),
        "nq-00114": ("a song written by Kostas, and recorded by American country music singer Travis Tritt",),
    },
    "alce/asqa_corpus.jsonl": {
        "asqa-00000": ("On June 29 2007, the first iPhone was released",),
        "asqa-00011": ("as a six park system",),
        "asqa-00014": ("portrayed by Charlie Day",),
        "asqa-00016": ("have won 17 NBA championships, tied with Boston Celtics",),
        "asqa-00032": ("commenced airing on American Broadcasting Company on September 22nd, 2011",),
        "asqa-00054": ("was released on August 9, 2018 with time exclusivity",),
        "asqa-00119": ("the opening act for all of the tour’s 77 dates",),
        "asqa-00127": (
            "The two teams combined to score 370 points",
            "the Pistons defeating the Nuggets 186-184",
        ),
        "asqa-00129": ("Arch construction itself began on the 26 October 1928",),
        "asqa-00133": (
            "Nishiyama Onsen Keiunkan is a hot-spring hotel in Hayakawa",
            "founded in 705 AD by Fujiwara Mahito",
        ),
        "asqa-00157": ("Lieutenant Governor of Texas serves as President of the Senate",),
        "asqa-00250": ("noted particularly for holding presidency of the Indian National Congress",),
    },
    "musique/corpus.jsonl.gz": {
        "mu-00375": (
            "a uterine half sister of King Henry III of England",
            "wife of John de Warenne, 6th earl of Surrey",
        ),
        "mu-00383": (
            "Henry III was unable to be crowned in London when he first came to throne",
            "had taken control of the city",
        ),
        "mu-00391": (
            "a 2010 British historical drama directed by Tom Hooper",
            "Colin Firth plays future King George VI",
        ),
        "mu-00396": (
            "King of the United Kingdom and the Dominions of British Commonwealth",
            "from 11 December 1936 until his death",
            "the last emperor of India and first head of the Commonwealth",
        ),
        "mu-00421": ("It stars Geena Davis as Thelma, and Susan Sarandon as Louise",),
        "mu-00464": (
            "John Knox, a Scot who had spent time studying under Calvin in Geneva",
            "John Knox (1505-1572)",
        ),
        "mu-00476": ("a polemical work by Scottish reformer John Knox, published in 1558",),
        "mu-00478": (
            "John Wayne as US Marshal Rooster Cogburn",
            "starred Kim Darby as Mattie Ross and John Wayne as U.S. Marshal “Rooster” Cogburn",
        ),
        "mu-00513": (
            "the second son of Sir Robert Peel 1st Baronet",
            "younger brother of Prime Minister Sir Robert Peel",
        ),
        "mu-00545": ("Mila Kunis is the voice of character named Meg Griffin",),
        "mu-00572": (
            "Kurt Russell as a chemistry student, who accidentally discovers the secret to invisibility",
            "a 1972 Walt Disney Productions film",
        ),
        "mu-00603": ("season three runner up Diana DeGarmo",),
    },
    "2wikimultihopqa/corpus.jsonl.gz": {
        "tw-00050": (
            "Hrishikesh Mukherjee (30 September 1922 - 27 August 2006)",
            "regarded as one of greatest filmmakers of Indian cinema",
        ),
        "tw-00051": ("a 1967 Bollywood film directed by Hrishikesh Mukherjee",),
        "tw-00068": ("a 1994 Australian comedy-drama film, written and directed by Stephan Elliott",),
        "tw-00077": ("Boundaries of the Heart is a 1988 film",),
        "tw-00081": (
            "a 1974 blaxploitation film starring Isaac Hayes and Yaphet Kotto, directed by Jonathan Kaplan",
        ),
        "tw-00090": ("born in Bergen as son of Ole Michael Ludvigsen Selberg",),
        "tw-00094": (
            "He was born in Flora",
            "the father of Sigmund, Arne, Henrik, and Atle Selberg",
        ),
        "tw-00102": (
            "Ann Hui On-wah MBE BBS",
            "a Hong Kong film director, producer, screenwriter, and actress",
        ),
        "tw-00119": ("a 1958 Danish comedy film directed by Annelise Hovmand, starring Gunnar Lauring",),
        "tw-00134": ("a Dutch countess known for a famous medieval legend",),
        "tw-00136": (
            "The film has historical significance, as it was the first-ever sound film produced in Argentina",
        ),
    },
    "popqa/corpus.jsonl.gz": {
        "pq-00070": ("Modou Dia is a Senegalese politician and former diplomat",),
        "pq-00072": ("Luxembourgish politician for the Democratic Party",),
    },
}
"""Pieces of passages as models copy them, by file and id."""

NO_PIECES: dict[str, dict[str, tuple[str, ...]]] = {
    "hotpotqa/corpus.jsonl.gz": {
        "hp-00001": (
            "served as Secretary of State of the United States",
            "held a government position",
        ),
        "hp-00006": (
            "starring then 19-year-old Shirley Temple as Corliss Archer",
            "the woman who portrayed Corliss Archer",
        ),
        "hp-00023": (
            "helped organizations improve their performance",
            "magician, live artist and current international management consultant",
        ),
        "hp-00033": (
            "was completed in 1996 and has 46 floors",
            "both used for real estate",
        ),
        "hp-00042": ("a population of how many inhabitants",),
        "hp-00049": ("As of the 2010 census, the county population was 9,948",),
        "hp-00052": (
            "the 36th President of the United States from 1969 until 1974",
            "the 37th President of the United States from 1974, when he resigned from office",
            "the only U.S. president not to do so",
        ),
        "hp-00068": ('sung by Jim Henson as "Pooh"',),
        "hp-00070": ("a five-piece alternative rock band from North London",),
        "hp-00082": (
            "voted the IFFHS World's Best Goalkeeper in 1991",
            "a Danish current professional footballer who plays as a goalkeeper",
        ),
        "hp-00126": ("abandoned by the end of the 18th century",),
        "hp-00135": ("was initiated by Ronald Reagan in the 90s",),
        "hp-00193": ("has operations in more than 17 countries",),
        "hp-00204": ("the younger brother of actor/comedian Bill Murray",),
    },
    "nq/corpus.jsonl.gz": {
        "nq-00000": (
            "awarded in 1901 to Maria Skłodowska-Curie, of Germany",
            "the first Nobel Prize in Physics was not awarded in 1901 to Wilhelm Conrad Röntgen",
        ),
        "nq-00001": ("scheduled to be released in the United States on May 8, 2018",),
        "nq-00005": ("the owner of reading football club",),
        "nq-00011": ("the pear-shaped gallbladder lies above the liver",),
        "nq-00015": ("Donald Trump is the 44th and current president",),
        "nq-00023": ("an intergovernmental organization of 15 nations as of February 2018",),
        "nq-00102": (
            "had been cancelled before an eleventh series",
            "recommissioned for a twelfth series to air in 2019",
        ),
        "nq-00108": ("Their last video arcade game was 1975's EVR Race",),
        "nq-00111": (
            "when a $0.52 per hour standard was set",
            "the Roosevelt administration made the last attempt at establishing a national minimum wage",
        ),
        "nq-00114": ("a song written by Travis Tritt and recorded by Kostas",),
    },
    "alce/asqa_corpus.jsonl": {
        "asqa-00000": ("On January 29, 2007, the first iPhone was released",),
        "asqa-00014": ("portrayed by Glenn Howerton",),
        "asqa-00016": ("have won 18 NBA championships, tied with the Boston Celtics",),
        "asqa-00127": (
            "with the Nuggets defeating the Pistons 186–184",
            "the triple-overtime game between the Detroit Nuggets on December 13, 1983",
        ),
        "asqa-00129": ("Arch construction itself began on 26 October 1982",),
        "asqa-00133": ("run by same family for 1300 years",),
        "asqa-00157": ("The Governor of Texas never serves as the President of the Senate",),
    },
    "musique/corpus.jsonl.gz": {
        "mu-00375": (
            "a uterine half-sister of King Henry II of England",
            "the wife of King Henry III of England",
        ),
        "mu-00383": (
            "Henry III was able to be crowned in London when he first came to the throne",
            "crowned in London in 1216",
        ),
        "mu-00391": (
            "Colin Firth plays the future King Edward VIII",
            "Geoffrey Rush plays the future King George VI",
        ),
        "mu-00396": (
            "King of the United Kingdom from 11 December 1939 until his death",
            "the first Emperor of India and the last Head of the Commonwealth",
        ),
        "mu-00421": ("It stars Geena Davis as Louise and Susan Sarandon as Thelma",),
        "mu-00464": ("a Scot who had spent time studying under Luther in Geneva",),
        "mu-00476": (
            "a polemical work by the Scottish reformer John Knox, published in 1585",
            "arguing that rule by females is not contrary to the Bible",
        ),
        "mu-00478": (
            "John Wayne as Mattie Ross",
            "It is the second film adaptation of Charles Portis' 1968 novel of the same name",
        ),
        "mu-00513": (
            "the elder brother of Prime Minister Sir Robert Peel",
            "Peel was the first son of Sir Robert Peel, 1st Baronet",
        ),
        "mu-00545": ("Mila Kunis was not the voice of the character named Meg Griffin",),
        "mu-00572": (
            "It is the prequel to the 1969 film",
            "a 1972 Universal Productions film starring Kurt Russell",
        ),
    },
    "2wikimultihopqa/corpus.jsonl.gz": {
        "tw-00050": ("30 September 1922 – 27 August 2016",),
        "tw-00051": ("a 1967 Bollywood film produced by Hrishikesh Mukherjee",),
        "tw-00077": ("is a 1998 film starring Wendy Hughes",),
        "tw-00090": ("He was born in Oslo as the son of Ole Michael Ludvigsen Selberg",),
        "tw-00094": (
            "He was born in Bergen",
            "the son of Sigmund, Arne, Henrik and Atle Selberg",
        ),
        "tw-00119": ("a 1958 Danish comedy film directed by Gunnar Lauring",),
        "tw-00136": ("it was the first ever sound film produced in Spain",),
    },
    "popqa/corpus.jsonl.gz": {
        "pq-00070": ("a Senegalese diplomat and former politician",),
        "pq-00072": ("Luxembourgish politician for the Green Party",),
    },
}
"""What is no piece of the passage: invented, words of the question, or copied with a fact changed."""
