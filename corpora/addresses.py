"""Which addresses of a host may be reached: those that anyone on the internet could reach, and no others."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from ragc.errors import SourceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)
"""What stands before the IPv4 address in an interface identifier of ISATAP (RFC 5214)."""

# By the registries of IANA for special purposes, where `Globally Reachable` is not True; also what they
# leave open but leads elsewhere. Python's own tables differ from version to version, and are asked too.
_NOT_GLOBAL = {
    "0.0.0.0/8": "of this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by customers of a provider",
    "127.0.0.0/8": "a loopback address",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "of IETF protocols",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "of AS112",
    "192.52.193.0/24": "of AMT",
    "192.88.99.0/24": "a relay of 6to4, which was given up",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "of AS112",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "reserved",
    "::1/128": "a loopback address",
    "::/128": "unspecified",
    "::ffff:0:0:0/96": "a translated address",
    "64:ff9b:1::/48": "translated within a network",
    "100::/64": "for discarding",
    "100:0:0:1::/64": "for discarding",
    "2001::/23": "of IETF protocols",
    "2001:db8::/32": "for documentation",
    "2002::/16": "of 6to4",
    "2620:4f:8000::/48": "of AS112",
    "3fff::/20": "for documentation",
    "5f00::/16": "of segment routing",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "link-local",
    "ff00::/8": "a multicast address",
}
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that IANA has given out of IPv6 to be reached from everywhere."""

_REFUSED = tuple((ipaddress.ip_network(block), why) for block, why in _NOT_GLOBAL.items())


async def checked(host: str, port: int, *, allow_loopback: bool = False) -> tuple[str, ...]:
    """The addresses that `host` stands for, in the resolver's order, each found fit to connect to.

    One address that is not fit refuses the host: private, loopback, link-local, shared, reserved,
    multicast and unspecified ones, and IPv6 addresses that hold such an IPv4 address. `allow_loopback`
    lets addresses of this machine pass. Raises SourceError when the host has no address or an unfit one.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SourceError(
            f"The host {host!r} has no address ({error}); check its name and the network."
        ) from error
    names = tuple(dict.fromkeys(str(info[4][0]) for info in found))
    if not names:
        raise SourceError(f"The host {host!r} has no address; check its name and the network.")
    for name in names:
        if why := unfit(name, allow_loopback=allow_loopback):
            raise SourceError(
                f"The host {host!r} has the address {name}, which is {why}; only addresses that are open to "
                "the whole internet are reached."
            )
    return names


def unfit(name: str, *, allow_loopback: bool = False) -> str:
    """Why the address `name` may not be reached, in a few words; "" when it may."""
    try:
        found = reached(ipaddress.ip_address(name))
    except ValueError:
        return "no address that can be checked"
    return next((why for address in found if (why := _unfit(address, allow_loopback))), "")


def _unfit(address: Address, allow_loopback: bool) -> str:
    if address.is_loopback and allow_loopback:
        return ""
    for block, why in _REFUSED:
        if address.version == block.version and address in block:
            return why
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return "not given out"
    return "" if address.is_global else "private or not global"


def reached(address: Address) -> tuple[Address, ...]:
    """What a packet to `address` may reach: itself, or the IPv4 address that an IPv6 one stands for.

    Mapped, compatible, NAT64, 6to4 and Teredo addresses (its client) stand for one; one of ISATAP is reached
    by its own network, and leads on to the IPv4 address in it.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    plain = ipaddress.IPv6Address(int(address))  # without its zone
    number = int(plain)
    last = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if plain.ipv4_mapped is not None:
        return (plain.ipv4_mapped,)
    if plain.sixtofour is not None:
        return (plain.sixtofour,)
    if plain.teredo is not None:
        return plain.teredo
    if plain in _NAT64 or (plain in _COMPATIBLE and number > 1):
        return (last,)
    return (plain, last) if (number >> 32) & 0xFFFFFFFF in _ISATAP else (plain,)
