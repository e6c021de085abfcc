"""Teams: the exact names that the API goes by, found from what people call them."""

from __future__ import annotations

from ragc.corpora import api_names

# Name, short forms. Cities with two teams are no short form.
_NBA = """
Atlanta Hawks: hawks, atlanta, atl
Boston Celtics: celtics, boston, bos
Brooklyn Nets: nets, brooklyn, bkn
Charlotte Hornets: hornets, charlotte, cha
Chicago Bulls: bulls, chicago, chi
Cleveland Cavaliers: cavaliers, cavs, cleveland, cle
Dallas Mavericks: mavericks, mavs, dallas, dal
Denver Nuggets: nuggets, denver, den
Detroit Pistons: pistons, detroit, det
Golden State Warriors: warriors, golden state, gsw, dubs
Houston Rockets: rockets, houston, hou
Indiana Pacers: pacers, indiana, ind
LA Clippers: clippers, los angeles clippers, lac
Los Angeles Lakers: lakers, la lakers, lal
Memphis Grizzlies: grizzlies, memphis, mem
Miami Heat: heat, miami, mia
Milwaukee Bucks: bucks, milwaukee, mil
Minnesota Timberwolves: timberwolves, minnesota, min
New Orleans Pelicans: pelicans, new orleans, nop
New York Knicks: knicks, new york, nyk
Oklahoma City Thunder: thunder, oklahoma city, okc
Orlando Magic: magic, orlando, orl
Philadelphia 76ers: 76ers, sixers, philadelphia, philly, phi
Phoenix Suns: suns, phoenix, phx
Portland Trail Blazers: trail blazers, blazers, portland, por
Sacramento Kings: kings, sacramento, sac
San Antonio Spurs: spurs, san antonio, sas
Toronto Raptors: raptors, toronto, tor
Utah Jazz: jazz, utah, uta
Washington Wizards: wizards, washington, was
"""

_SOCCER = """
Bayern Munich: bayern, fc bayern, bayern munchen, fc bayern munich
Brighton: brighton and hove albion, brighton & hove albion
Dortmund: borussia dortmund, bvb
Eint Frankfurt: eintracht frankfurt
Gladbach: borussia monchengladbach
Leverkusen: bayer leverkusen, bayer 04 leverkusen
Manchester City: man city, mcfc
Manchester Utd: manchester united, man united, man utd
Milan: ac milan
Newcastle Utd: newcastle united, newcastle
Nott'ham Forest: nottingham forest
Paris S-G: paris saint germain, psg, paris sg
Inter: inter milan, internazionale
Atlético Madrid: atletico madrid, atletico
Barcelona: fc barcelona, barca
Betis: real betis
Sheffield Utd: sheffield united
Tottenham: tottenham hotspur, spurs
West Ham: west ham united
Wolves: wolverhampton wanderers, wolverhampton
"""


def _aliases(lines: str) -> dict[str, str]:
    """The exact name of every name in plain form."""
    known: dict[str, str] = {}
    for line in lines.strip().splitlines():
        name, _, short = line.partition(": ")
        known |= {api_names.plain(alias): name for alias in (name, *short.split(", "))}
    return known


NBA, SOCCER = _aliases(_NBA), _aliases(_SOCCER)

# The API has the games of these under more than one name.
_ALSO = {"LA Clippers": ("Los Angeles Clippers",)}


def nba(name: str) -> tuple[str, ...]:
    """The names under which the API has the games of the NBA team `name`; none when there is no such team.

    A name of three letters or less must be equal to a known one; a longer one may be misspelt a little.
    """
    exact = NBA.get(api_names.plain(name))
    if exact is None and len(name) > 3:
        full = list(dict.fromkeys(NBA.values()))
        fit = api_names.match(name, full, "team")
        exact = fit.name if fit else None
    return (exact, *_ALSO.get(exact, ())) if exact else ()


def soccer(name: str) -> str:
    """The name under which the API most likely has the soccer team `name`: an alias, else with capitals."""
    return SOCCER.get(api_names.plain(name)) or (name.title() if name.islower() else name)
