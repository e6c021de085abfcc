"""Which addresses of a host may be reached: those that anyone on the internet could reach, and no others."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from ragc.errors import SourceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")


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
        address = inner(ipaddress.ip_address(name))
    except ValueError:
        return "no address that can be checked"
    if address.is_loopback:
        return "" if allow_loopback else "a loopback address"
    if address.is_link_local or (isinstance(address, ipaddress.IPv6Address) and address.is_site_local):
        return "link-local"
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified:
        return "unspecified"
    if not address.is_global:
        return "private or not global"
    return "reserved" if address.is_reserved else ""


def inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to (mapped, compatible, NAT64, 6to4, Teredo); else itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    plain = ipaddress.IPv6Address(int(address))  # without its zone
    if plain.ipv4_mapped is not None:
        return plain.ipv4_mapped
    if plain.sixtofour is not None:
        return plain.sixtofour
    if plain.teredo is not None:
        return plain.teredo[1]
    if plain in _NAT64 or (plain in _COMPATIBLE and int(plain) > 1):
        return ipaddress.IPv4Address(int(plain) & 0xFFFFFFFF)
    return address
