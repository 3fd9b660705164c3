"""The books of a service as a page: was the promise kept, how long what was down, where the time went."""

from __future__ import annotations

from assay.catalog.messages import Texts
from assay.domain.contract import Terms
from assay.report.answer_page import Page, Section, Table
from assay.report.incidents import habit_line, incident_lines, service_rows, spent_lines, verdict_lines
from assay.watch.interval import Habit
from assay.watch.service import Service


def service_page(service: Service, terms: Terms, texts: Texts, habit: Habit | None) -> Page:
    """The same words as on the terminal, in sections."""
    title, *lead = verdict_lines(service, terms, texts)
    rows = tuple((texts.label(f"watch.sla.{code}"), value) for code, value in service_rows(service, terms))
    heads = (texts.label("watch.sla.figure"), texts.label("watch.sla.value"))
    sections = [Section(title=texts.label("watch.sla.books"), table=Table(headers=heads, rows=rows))]
    if service.spent.total_s > 0:
        lines = tuple(line for _, line in spent_lines(service.spent, texts))
        told = () if habit is None else (habit_line(habit, texts),)
        sections.append(Section(title=texts.label("watch.sla.spent"), lines=(*lines, *told)))
    if service.incidents:
        lines = tuple(line for _, line in incident_lines(service.incidents, texts))
        sections.append(Section(title=texts.label("watch.sla.incidents"), lines=lines))
    return Page(kind="watch.sla.page", title=title, lead=tuple(lead), sections=tuple(sections))
