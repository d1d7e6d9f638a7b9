"""A job's files: the tab that lists them, and each as a download; what its code was changed by."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from portal.pages.access import page, viewer_of
from portal.pages.job_page import job_frame
from portal.reports.downloads import as_download, as_patch
from scheduler.conf import load_conf
from scheduler.selectors.jobs import get_visible_job
from scheduler.selectors.kept.outputs import get_output, outputs_of
from scheduler.selectors.one_job.header import job_with_header
from scheduler.selectors.one_job.tries import patch_of


@page("GET")
def job_outputs(request: HttpRequest, pk: int) -> HttpResponseBase:
    """All files, also those that are not kept and why; `?part=files` is the list alone."""
    viewer = viewer_of(request)
    header = job_with_header(viewer, pk)
    conf = load_conf()
    context = job_frame(viewer, header) | {
        "tab": "files",
        "now": timezone.now(),
        "outputs": outputs_of(viewer, header.job),
        "caps": {
            "file": conf.output_file_mib * 1024 * 1024,
            "job": conf.output_job_mib * 1024 * 1024,
            "count": conf.output_count,
        },
    }
    part = "#files" if request.GET.get("part") == "files" else ""
    return render(request, f"jobs/kept/outputs.html{part}", context)


@page("GET")
def job_output(request: HttpRequest, pk: int, number: int) -> HttpResponseBase:
    """One file, unchanged."""
    viewer = viewer_of(request)
    return as_download(get_output(viewer, get_visible_job(viewer, pk), number))


@page("GET")
def job_patch(request: HttpRequest, pk: int, number: int) -> HttpResponseBase:
    """How an attempt's code differed from its commit, as text."""
    viewer = viewer_of(request)
    job = get_visible_job(viewer, pk)
    commit, patch = patch_of(viewer, job, number)
    return as_patch(patch, commit, job.pk, number)
